package sim

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// A definition is what the server reads in a CRD.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Kind, Plural string }
		Versions []struct {
			Name         string
			Schema       struct{ OpenAPIV3Schema json.RawMessage }
			Subresources struct{ Status, Scale *struct{} }
		}
	}
}

// objectMeta is the schema of metadata, as far as it matters who owns what.
const objectMeta = `{"type":"object","properties":{
	"name":{"type":"string"},"generateName":{"type":"string"},"namespace":{"type":"string"},"selfLink":{"type":"string"},
	"uid":{"type":"string"},"resourceVersion":{"type":"string"},"generation":{"type":"integer"},
	"creationTimestamp":{"type":"string"},"deletionTimestamp":{"type":"string"},"deletionGracePeriodSeconds":{"type":"integer"},
	"labels":{"type":"object","additionalProperties":{"type":"string"}},
	"annotations":{"type":"object","additionalProperties":{"type":"string"}},
	"finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
	"managedFields":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
	"ownerReferences":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["uid"],"items":{
		"type":"object","x-kubernetes-map-type":"atomic","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},
		"name":{"type":"string"},"uid":{"type":"string"},"controller":{"type":"boolean"},"blockOwnerDeletion":{"type":"boolean"}}}}}}`

// read reads a CRD.
func read(manifest []byte) (*kind, managedfields.TypeConverter, error) {
	var d definition
	if err := yaml.Unmarshal(manifest, &d); err != nil {
		return nil, nil, err
	}
	v := d.Spec.Versions[0]
	k := &kind{
		gvk: schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}, resource: d.Spec.Names.Plural,
		custom: true, counts: true, status: v.Subresources.Status != nil, scales: v.Subresources.Scale != nil,
	}
	k.zero = k.empty()
	var metadata, model spec.Schema
	if err := json.Unmarshal([]byte(objectMeta), &metadata); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(v.Schema.OpenAPIV3Schema, &model); err != nil {
		return nil, nil, fmt.Errorf("schema of %s: %w", k.resource, err)
	}
	var err error
	if k.defaults, err = defaultsIn(&model); err != nil {
		return nil, nil, fmt.Errorf("defaults of %s: %w", k.resource, err)
	}
	model.Properties["metadata"] = metadata
	model.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": k.gvk.Group, "version": k.gvk.Version, "kind": k.gvk.Kind},
	})
	types, err := managedfields.NewTypeConverter(map[string]*spec.Schema{k.gvk.Kind: &model}, false)
	return k, types, err
}

// defaults are those in a schema: what is there when nothing is said, and what lies
// below. A branch without any is nil.
type defaults struct {
	value  any
	fields map[string]*defaults
	each   *defaults // of a list, or of a map with free keys
}

func defaultsIn(s *spec.Schema) (*defaults, error) {
	d := &defaults{fields: map[string]*defaults{}}
	if s.Default != nil {
		raw, err := json.Marshal(s.Default)
		if err != nil {
			return nil, err
		}
		if err := utiljson.Unmarshal(raw, &d.value); err != nil {
			return nil, err
		}
	}
	for name, property := range s.Properties {
		below, err := defaultsIn(&property)
		if err != nil {
			return nil, err
		}
		if below != nil {
			d.fields[name] = below
		}
	}
	var err error
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		d.each, err = defaultsIn(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		d.each, err = defaultsIn(s.AdditionalProperties.Schema)
	}
	if d.value == nil && len(d.fields) == 0 && d.each == nil {
		return nil, err
	}
	return d, err
}

// fill puts the defaults where nothing is.
func (d *defaults) fill(in any) {
	if d == nil {
		return
	}
	switch in := in.(type) {
	case map[string]any:
		for name, below := range d.fields {
			if _, ok := in[name]; !ok && below.value != nil {
				in[name] = runtime.DeepCopyJSONValue(below.value)
			}
			below.fill(in[name])
		}
		for _, one := range in {
			d.each.fill(one)
		}
	case []any:
		for _, one := range in {
			d.each.fill(one)
		}
	}
}
