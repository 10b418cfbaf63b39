// A provider in Go: each Node has a machine, which is the Node itself.
package export_ccm_cloud_meta

import (
	"runtime/debug"

	. "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/ccm_cloud_meta"
	"wit_component/ccm_cloud_types"
)

// Go's garbage collector reads the clock, which a component may not do while it takes the arguments of a call: the call would end with
// "cannot leave component instance". It has nothing to do anyway, as each call has an instance of its own.
func init() {
	debug.SetGCPercent(-1)
}

// Describe: what is empty need not be told.
func Describe() ccm_cloud_meta.Descriptor {
	return ccm_cloud_meta.Descriptor{
		Name:              "hello-go",
		Version:           "0.1.0",
		Revision:          "1",
		ProviderIdSchemes: []string{"hello-go"},
	}
}

func Offers() Result[[]ccm_cloud_meta.Capability, ccm_cloud_types.Failure] {
	return Ok[[]ccm_cloud_meta.Capability, ccm_cloud_types.Failure](nil)
}

func Check(online bool) Result[[]ccm_cloud_types.Problem, ccm_cloud_types.Failure] {
	return Ok[[]ccm_cloud_types.Problem, ccm_cloud_types.Failure](nil)
}
