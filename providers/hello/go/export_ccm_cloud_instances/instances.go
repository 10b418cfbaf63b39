package export_ccm_cloud_instances

import (
	"strconv"

	. "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/ccm_cloud_instances"
	"wit_component/ccm_cloud_log"
	"wit_component/ccm_cloud_types"
)

func Find(nodes []ccm_cloud_types.Node, need ccm_cloud_instances.Need) Result[[]ccm_cloud_instances.Finding, ccm_cloud_types.Failure] {
	fields := []Tuple2[string, string]{{F0: "nodes", F1: strconv.Itoa(len(nodes))}}
	ccm_cloud_log.Write(ccm_cloud_log.LevelInfo, "hello from Go", fields)
	findings := make([]ccm_cloud_instances.Finding, len(nodes))
	for i, node := range nodes {
		findings[i] = ccm_cloud_instances.MakeFindingFound(machine(node))
	}
	return Ok[[]ccm_cloud_instances.Finding, ccm_cloud_types.Failure](findings)
}

func machine(node ccm_cloud_types.Node) ccm_cloud_instances.Instance {
	return ccm_cloud_instances.Instance{
		ProviderId:   node.ProviderId.SomeOr("hello-go://" + node.Name),
		InstanceType: "hello",
		Addresses:    node.Addresses,
		State:        ccm_cloud_instances.StateRunning,
	}
}
