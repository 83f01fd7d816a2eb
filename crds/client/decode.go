package client

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// A decoding is what the clients encode and decode with: that of client-go, but that it
// reads the kind of an object from its first bytes. To find the kind, client-go parses
// all of the object, and then once more for its fields; an event of a watch four times.
type decoding struct {
	serializer.WithoutConversionCodecFactory
	accepts []runtime.SerializerInfo
}

func newDecoding(s *runtime.Scheme) decoding {
	codecs := serializer.NewCodecFactory(s)
	d := decoding{serializer.WithoutConversionCodecFactory{CodecFactory: codecs}, slices.Clone(codecs.SupportedMediaTypes())}
	for i := range d.accepts {
		info := &d.accepts[i]
		if info.MediaType != runtime.ContentTypeJSON {
			continue
		}
		info.Serializer = json.NewSerializerWithOptions(kinds{}, s, s, json.SerializerOptions{})
		stream := *info.StreamSerializer
		stream.Serializer = info.Serializer
		info.StreamSerializer = &stream
	}
	return d
}

// SupportedMediaTypes are the formats, and what reads each.
func (d decoding) SupportedMediaTypes() []runtime.SerializerInfo { return d.accepts }

// kinds finds out of what kind an object is.
type kinds struct{}

// The API server writes the keys of our kinds in order, and an event of a watch has two.
var (
	versionFirst = []byte(`{"apiVersion":"`)
	kindNext     = []byte(`,"kind":"`)
	eventFirst   = []byte(`{"type":"`)
	objectNext   = []byte(`,"object":{`)
)

// Interpret returns the kind of an object. What does not begin as the API server writes
// it, as a list or an error, is parsed.
func (kinds) Interpret(data []byte) (*schema.GroupVersionKind, error) {
	if version, rest, ok := quoted(data, versionFirst); ok {
		if kind, _, ok := quoted(rest, kindNext); ok {
			gv, err := schema.ParseGroupVersion(version)
			if err != nil {
				return nil, err
			}
			gvk := gv.WithKind(kind)
			return &gvk, nil
		}
	}
	if _, rest, ok := quoted(data, eventFirst); ok && bytes.HasPrefix(rest, objectNext) {
		return &schema.GroupVersionKind{}, nil // its object has a kind, and is read after it
	}
	return json.DefaultMetaFactory.Interpret(data)
}

// quoted is the string behind a beginning, and what follows its end. A string with an
// escape is not read.
func quoted(data, beginning []byte) (text string, rest []byte, ok bool) {
	data, ok = bytes.CutPrefix(data, beginning)
	if !ok {
		return "", nil, false
	}
	end := bytes.IndexByte(data, '"')
	if end < 0 || bytes.IndexByte(data[:end], '\\') >= 0 {
		return "", nil, false
	}
	return string(data[:end]), data[end+1:], true
}
