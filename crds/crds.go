package crds

import "embed"

// The names of the four CustomResourceDefinitions.
const (
	Sandboxes        = "sandboxes.agents.x-k8s.io"
	SandboxClaims    = "sandboxclaims.extensions.agents.x-k8s.io"
	SandboxTemplates = "sandboxtemplates.extensions.agents.x-k8s.io"
	SandboxWarmPools = "sandboxwarmpools.extensions.agents.x-k8s.io"
)

//go:embed agents/v1beta1/*.yaml extensions/v1beta1/*.yaml
var files embed.FS

// paths is where each manifest lies, in the order of their names.
var paths = []string{
	"extensions/v1beta1/extensions.agents.x-k8s.io_sandboxclaims.yaml",
	"agents/v1beta1/agents.x-k8s.io_sandboxes.yaml",
	"extensions/v1beta1/extensions.agents.x-k8s.io_sandboxtemplates.yaml",
	"extensions/v1beta1/extensions.agents.x-k8s.io_sandboxwarmpools.yaml",
}

// Names are the names of the definitions, in the order of Manifests.
func Names() []string {
	return []string{SandboxClaims, Sandboxes, SandboxTemplates, SandboxWarmPools}
}

// Manifests are the definitions, one YAML document each, sorted by name.
func Manifests() [][]byte {
	docs := make([][]byte, 0, len(paths))
	for _, path := range paths {
		doc, err := files.ReadFile(path)
		if err != nil {
			panic(err) // the files are part of the binary
		}
		docs = append(docs, doc)
	}
	return docs
}
