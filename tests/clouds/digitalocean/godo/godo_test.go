// Package godo drives the simulator with the vendor's own client: what that cannot read or send, the simulator has wrong.
package godo

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/digitalocean/godo"
)

// client for the simulator that the test in Rust has started, with machines 1 to 3 and the certificate "web".
func client(t *testing.T, token string) *godo.Client {
	t.Helper()
	url := os.Getenv("SIMULATOR_URL")
	if url == "" {
		t.Fatal("SIMULATOR_URL is not set; run this by `cargo test -p ccm-sim-digitalocean --test godo`")
	}
	made, err := godo.New(http.DefaultClient, godo.SetBaseURL(url), godo.SetRequestHeaders(map[string]string{
		"Authorization": "Bearer " + token,
	}))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func own(t *testing.T) (context.Context, *godo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx, client(t, os.Getenv("SIMULATOR_TOKEN"))
}

func must[T any](t *testing.T) func(T, *godo.Response, error) T {
	return func(value T, _ *godo.Response, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// refused checks that the client understood the error as one of the API.
func refused(t *testing.T, err error, status int) {
	t.Helper()
	var answer *godo.ErrorResponse
	if !errors.As(err, &answer) || answer.Response.StatusCode != status {
		t.Fatalf("got %v, want status %d", err, status)
	}
	if answer.Message == "" || answer.RequestID == "" {
		t.Fatalf("no message or no request ID: %+v", answer)
	}
}

func request(name string) *godo.LoadBalancerRequest {
	return &godo.LoadBalancerRequest{
		Name: name, Region: "nyc3", Type: godo.LoadBalancerTypeRegionalNetwork, SizeUnit: 1, DropletIDs: []int{1, 2},
		ForwardingRules: []godo.ForwardingRule{
			{EntryProtocol: "tcp", EntryPort: 80, TargetProtocol: "tcp", TargetPort: 80},
		},
		HealthCheck: &godo.HealthCheck{
			Protocol: "http", Port: 10256, Path: "/healthz", CheckIntervalSeconds: 3, ResponseTimeoutSeconds: 5,
			HealthyThreshold: 5, UnhealthyThreshold: 3, ProxyProtocol: godo.PtrTo(false),
		},
		StickySessions: &godo.StickySessions{Type: "none"}, Tags: []string{"k8s:one"}, Firewall: &godo.LBFirewall{},
		DisableLetsEncryptDNSRecords: godo.PtrTo(false),
		Network:                      godo.LoadBalancerNetworkTypeExternal, NetworkStack: godo.LoadBalancerNetworkStackDualstack,
	}
}

func TestAccountRegionsAndVPCs(t *testing.T) {
	ctx, api := own(t)
	if account := must[*godo.Account](t)(api.Account.Get(ctx)); account.Status != "active" {
		t.Fatalf("%+v", account)
	}
	regions := must[[]godo.Region](t)(api.Regions.List(ctx, &godo.ListOptions{PerPage: 200}))
	vpcs := must[[]*godo.VPC](t)(api.VPCs.List(ctx, &godo.ListOptions{PerPage: 200}))
	if len(regions) == 0 || len(regions) != len(vpcs) {
		t.Fatalf("%d regions, %d VPCs", len(regions), len(vpcs))
	}
	if vpc := must[*godo.VPC](t)(api.VPCs.Get(ctx, vpcs[0].ID)); vpc.IPRange == "" || vpc.CreatedAt.IsZero() {
		t.Fatalf("%+v", vpc)
	}
}

func TestDropletsByPagesNameAndID(t *testing.T) {
	ctx, api := own(t)
	var all []godo.Droplet
	options := &godo.ListOptions{PerPage: 2}
	for {
		page, response, err := api.Droplets.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		if response.Rate.Limit != 5000 || response.Rate.Remaining == 0 || response.Rate.Reset.Before(time.Now()) {
			t.Fatalf("rate: %+v", response.Rate)
		}
		all = append(all, page...)
		if response.Links.IsLastPage() {
			break
		}
		current, err := response.Links.CurrentPage()
		if err != nil {
			t.Fatal(err)
		}
		options.Page = current + 1
	}
	if len(all) != 3 || all[2].Name != "node-3" {
		t.Fatalf("%+v", all)
	}
	if named := must[[]godo.Droplet](t)(api.Droplets.ListByName(ctx, "NODE-2", nil)); len(named) != 1 || named[0].ID != 2 {
		t.Fatalf("%+v", named)
	}
	if gpus := must[[]godo.Droplet](t)(api.Droplets.ListWithGPUs(ctx, nil)); len(gpus) != 1 || gpus[0].ID != 9 {
		t.Fatalf("%+v", gpus)
	}
	one := must[*godo.Droplet](t)(api.Droplets.Get(ctx, 1))
	private, err := one.PrivateIPv4()
	if err != nil || private != "10.8.0.1" || one.Region.Slug != "nyc3" || one.SizeSlug == "" {
		t.Fatalf("%v %+v", err, one)
	}
	_, _, err = api.Droplets.Get(ctx, 4711)
	refused(t, err, 404)
}

func TestLoadBalancerFromCreationToDeletion(t *testing.T) {
	ctx, api := own(t)
	made := must[*godo.LoadBalancer](t)(api.LoadBalancers.Create(ctx, request("life")))
	if made.Status != "new" || made.IP != "" || made.Region.Slug != "nyc3" {
		t.Fatalf("%+v", made)
	}
	_, _, err := api.LoadBalancers.Update(ctx, made.ID, request("life"))
	refused(t, err, 403)
	_, _, err = api.LoadBalancers.Create(ctx, request("life"))
	refused(t, err, 422)

	for made.Status == "new" {
		time.Sleep(20 * time.Millisecond)
		made = must[*godo.LoadBalancer](t)(api.LoadBalancers.Get(ctx, made.ID))
	}
	if made.Status != "active" || made.IP == "" || made.IPv6 == "" || *made.HealthCheck.ProxyProtocol {
		t.Fatalf("%+v", made)
	}
	changed := request("life")
	changed.DropletIDs = []int{3}
	changed.ForwardingRules[0].EntryPort = 8080
	updated := must[*godo.LoadBalancer](t)(api.LoadBalancers.Update(ctx, made.ID, changed))
	if len(updated.DropletIDs) != 1 || updated.ForwardingRules[0].EntryPort != 8080 || updated.IP != made.IP {
		t.Fatalf("%+v", updated)
	}
	if _, err := api.LoadBalancers.AddDroplets(ctx, made.ID, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := api.LoadBalancers.RemoveDroplets(ctx, made.ID, 3); err != nil {
		t.Fatal(err)
	}
	rule := godo.ForwardingRule{EntryProtocol: "udp", EntryPort: 53, TargetProtocol: "udp", TargetPort: 53}
	if _, err := api.LoadBalancers.AddForwardingRules(ctx, made.ID, rule); err != nil {
		t.Fatal(err)
	}
	if _, err := api.LoadBalancers.RemoveForwardingRules(ctx, made.ID, rule); err != nil {
		t.Fatal(err)
	}
	listed := must[[]godo.LoadBalancer](t)(api.LoadBalancers.ListByNames(ctx, []string{"life"}, nil))
	if len(listed) != 1 || len(listed[0].DropletIDs) != 1 || listed[0].DropletIDs[0] != 1 || len(listed[0].ForwardingRules) != 1 {
		t.Fatalf("%+v", listed)
	}
	if _, err := api.LoadBalancers.Delete(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = api.LoadBalancers.Get(ctx, made.ID)
	refused(t, err, 404)
	_, err = api.LoadBalancers.Delete(ctx, made.ID)
	refused(t, err, 404)
}

func TestCertificatesByNameAndIDAndInRules(t *testing.T) {
	ctx, api := own(t)
	found := must[[]godo.Certificate](t)(api.Certificates.ListByName(ctx, "web", &godo.ListOptions{PerPage: 1}))
	if len(found) != 1 || found[0].Type != "lets_encrypt" || found[0].State != "verified" {
		t.Fatalf("%+v", found)
	}
	one := must[*godo.Certificate](t)(api.Certificates.Get(ctx, found[0].ID))
	if one.Name != "web" || one.DNSNames[0] != "www.example.com" {
		t.Fatalf("%+v", one)
	}
	tls := request("tls")
	tls.Type = godo.LoadBalancerTypeRegional
	tls.ForwardingRules = []godo.ForwardingRule{
		{EntryProtocol: "https", EntryPort: 443, TargetProtocol: "http", TargetPort: 80, CertificateID: one.ID},
		{EntryProtocol: "http3", EntryPort: 443, TargetProtocol: "http", TargetPort: 80, CertificateID: one.ID},
	}
	made := must[*godo.LoadBalancer](t)(api.LoadBalancers.Create(ctx, tls))
	if made.ForwardingRules[1].CertificateID != one.ID {
		t.Fatalf("%+v", made)
	}
	tls.Name = "gone"
	tls.ForwardingRules[0].CertificateID = "11111111-5d0c-4000-8000-000000000000"
	_, _, err := api.LoadBalancers.Create(ctx, tls)
	refused(t, err, 404)
}

func TestFirewallFromCreationToDeletion(t *testing.T) {
	ctx, api := own(t)
	world := []string{"0.0.0.0/0", "::/0"}
	asked := &godo.FirewallRequest{
		Name: "k8s-public-access", Tags: []string{"worker"},
		InboundRules: []godo.InboundRule{{Protocol: "tcp", PortRange: "31000", Sources: &godo.Sources{Addresses: world}}},
		OutboundRules: []godo.OutboundRule{
			{Protocol: "tcp", PortRange: "all", Destinations: &godo.Destinations{Addresses: world}},
			{Protocol: "icmp", Destinations: &godo.Destinations{Addresses: world}},
		},
	}
	_, _, err := api.Firewalls.Create(ctx, asked)
	refused(t, err, 422) // no such tag
	must[*godo.Tag](t)(api.Tags.Create(ctx, &godo.TagCreateRequest{Name: "worker"}))
	made := must[*godo.Firewall](t)(api.Firewalls.Create(ctx, asked))
	if made.Status != "waiting" || made.OutboundRules[0].PortRange != "0" || made.OutboundRules[1].PortRange != "0" {
		t.Fatalf("%+v", made)
	}
	asked.InboundRules = nil
	updated := must[*godo.Firewall](t)(api.Firewalls.Update(ctx, made.ID, asked))
	if len(updated.InboundRules) != 0 {
		t.Fatalf("%+v", updated)
	}
	listed := must[[]godo.Firewall](t)(api.Firewalls.List(ctx, nil))
	if len(listed) != 1 || listed[0].ID != made.ID {
		t.Fatalf("%+v", listed)
	}
	_, _, err = api.Firewalls.Create(ctx, asked)
	refused(t, err, 409)
	if _, err := api.Firewalls.Delete(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = api.Firewalls.Get(ctx, made.ID)
	refused(t, err, 404)
}

func TestTags(t *testing.T) {
	ctx, api := own(t)
	made := must[*godo.LoadBalancer](t)(api.LoadBalancers.Create(ctx, request("tagged")))
	resources := &godo.TagResourcesRequest{Resources: []godo.Resource{{ID: made.ID, Type: godo.LoadBalancerResourceType}}}
	_, err := api.Tags.TagResources(ctx, "k8s:two", resources)
	refused(t, err, 404)
	must[*godo.Tag](t)(api.Tags.Create(ctx, &godo.TagCreateRequest{Name: "k8s:two"}))
	if _, err := api.Tags.TagResources(ctx, "k8s:two", resources); err != nil {
		t.Fatal(err)
	}
	tagged := must[*godo.LoadBalancer](t)(api.LoadBalancers.Get(ctx, made.ID))
	if len(tagged.Tags) != 2 || tagged.Tags[1] != "k8s:two" {
		t.Fatalf("%+v", tagged.Tags)
	}
	tag := must[*godo.Tag](t)(api.Tags.Get(ctx, "k8s:two"))
	if tag.Name != "k8s:two" || tag.Resources.Count != 1 {
		t.Fatalf("%+v", tag)
	}
	untagged := &godo.UntagResourcesRequest{Resources: resources.Resources}
	if _, err := api.Tags.UntagResources(ctx, "k8s:two", untagged); err != nil {
		t.Fatal(err)
	}
	if tags := must[[]godo.Tag](t)(api.Tags.List(ctx, nil)); len(tags) < 2 {
		t.Fatalf("%+v", tags)
	}
	if _, err := api.Tags.Delete(ctx, "k8s:two"); err != nil {
		t.Fatal(err)
	}
	_, err = api.Tags.Delete(ctx, "k8s:two")
	refused(t, err, 404)
}

func TestATokenThatIsNotValid(t *testing.T) {
	ctx, _ := own(t)
	_, _, err := client(t, "wrong").Account.Get(ctx)
	refused(t, err, 401)
}
