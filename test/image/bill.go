package image

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

type spdx struct {
	Version   string `json:"spdxVersion"`
	License   string `json:"dataLicense"`
	ID        string `json:"SPDXID"`
	Name      string `json:"name"`
	Namespace string `json:"documentNamespace"`
	Creation  struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	} `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxPackage struct {
	ID         string         `json:"SPDXID"`
	Name       string         `json:"name"`
	Version    string         `json:"versionInfo"`
	Location   string         `json:"downloadLocation"`
	Analyzed   bool           `json:"filesAnalyzed"`
	Concluded  string         `json:"licenseConcluded"`
	Declared   string         `json:"licenseDeclared"`
	Copyright  string         `json:"copyrightText"`
	Checksums  []spdxChecksum `json:"checksums,omitempty"`
	References []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// bill is the bill of materials of an image, in SPDX: every module that is in the binary with
// its version and its sum, as the binary itself says, and the one that the certificates are of.
func (s Source) bill(binary []byte, arch string, roots *debug.Module) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read what is in the binary: %w", err)
	}
	sum := strings.TrimPrefix(digest(binary), "sha256:")
	doc := spdx{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "kiln-" + s.Version + "-linux-" + arch,
		Namespace: "https://github.com/kiln-sandbox/kiln/sbom/" + sum,
	}
	doc.Creation.Created = s.Date.Format(time.RFC3339)
	doc.Creation.Creators = []string{"Tool: kiln-make-image"}
	main := module("SPDXRef-kiln", &info.Main)
	main.Version, main.Declared = s.Version, "Apache-2.0"
	main.Checksums = []spdxChecksum{{"SHA256", sum}}
	trusted := module("SPDXRef-certificates", roots)
	doc.Packages = append(doc.Packages, main, trusted, module("SPDXRef-go", &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}))
	doc.Relationships = append(doc.Relationships,
		spdxRelation{doc.ID, "DESCRIBES", main.ID}, spdxRelation{doc.ID, "DESCRIBES", trusted.ID},
		spdxRelation{main.ID, "DEPENDS_ON", "SPDXRef-go"})
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		one := module(fmt.Sprintf("SPDXRef-module-%d", i), m)
		doc.Packages = append(doc.Packages, one)
		doc.Relationships = append(doc.Relationships, spdxRelation{main.ID, "DEPENDS_ON", one.ID})
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

func module(id string, m *debug.Module) spdxPackage {
	p := spdxPackage{
		ID: id, Name: m.Path, Version: m.Version, Location: unknown,
		Concluded: unknown, Declared: unknown, Copyright: unknown,
		References: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
		p.Checksums = []spdxChecksum{{"SHA256", hex.EncodeToString(raw)}}
	}
	return p
}
