// Command go-manager is the cloud controller manager that every vendor's Go binary is built on: the Kubernetes cloud-provider
// framework and its controllers, with a cloud that knows each machine and takes a while to answer. Benchmarks run it beside
// wasm-ccm, with the same API server. It flatters the Go way: a real manager also pays for its requests to the cloud.
//
// GO_MANAGER_DELAY is how long the cloud takes for one answer, as a Go duration. Default 50ms.
package main

import (
	"context"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

const name = "cloudlycke"

// cloud answers after its delay, each question by a call of its own, as the framework asks them.
type cloud time.Duration

func (c cloud) answer(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(c)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c cloud) InstanceExists(ctx context.Context, _ *v1.Node) (bool, error) {
	return true, c.answer(ctx)
}

func (c cloud) InstanceShutdown(ctx context.Context, _ *v1.Node) (bool, error) {
	return false, c.answer(ctx)
}

func (c cloud) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	addresses := []v1.NodeAddress{}
	for _, address := range node.Status.Addresses {
		if address.Type != v1.NodeExternalIP {
			addresses = append(addresses, address)
		}
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    name + "://" + node.Name,
		InstanceType:  "virtualbox",
		NodeAddresses: append(addresses, v1.NodeAddress{Type: v1.NodeExternalIP, Address: "203.0.113.1"}),
		Zone:          "virtualbox",
		Region:        "virtualbox",
	}, c.answer(ctx)
}

func (cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                  { return c, true }
func (cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (cloud) ProviderName() string                                              { return name }
func (cloud) HasClusterID() bool                                                { return true }

func main() {
	delay := 50 * time.Millisecond
	if text := os.Getenv("GO_MANAGER_DELAY"); text != "" {
		var err error
		if delay, err = time.ParseDuration(text); err != nil {
			klog.Fatalf("GO_MANAGER_DELAY: %v", err)
		}
	}
	cloudprovider.RegisterCloudProvider(name, func(io.Reader) (cloudprovider.Interface, error) { return cloud(delay), nil })
	settings, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("options: %v", err)
	}
	open := func(*config.CompletedConfig) cloudprovider.Interface { return cloud(delay) }
	command := app.NewCloudControllerManagerCommand(settings, open, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), flag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}
