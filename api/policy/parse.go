package policy

import (
	gojson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/internal/yamldoc"
)

// MaxSize is the size limit of a policy, in bytes.
const MaxSize = 1 << 20

// Load reads the policy file at path. It blocks on the file system and reads at most [MaxSize]
// bytes. The errors name the path.
func Load(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read node policy: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read node policy %s: %w", path, err)
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("node policy %s: %w", path, err)
	}
	return p, nil
}

// Parse reads a policy. For well-formed YAML the error joins up to a hundred faults as
// [*FieldError].
func Parse(data []byte) (*Policy, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("policy of more than %d bytes", MaxSize)
	}
	if err := yamldoc.CheckOne(data); err != nil && !errors.Is(err, yamldoc.ErrEmpty) {
		return nil, fmt.Errorf("policy: %w", err)
	}
	doc, faults, err := decode(data)
	if err != nil {
		return nil, err
	}
	odd, err := oddNumbers(data)
	if err != nil {
		return nil, err
	}
	r := reader{faults: faults, odd: odd}
	p := r.policy(doc)
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults[:min(len(r.faults), 100)]...)
	}
	return p, nil
}

// decode turns YAML into a document. Each unknown field is a fault with a path. Duplicate keys and
// a wrong structure are errors.
func decode(data []byte) (doc document, faults []error, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return doc, nil, fmt.Errorf("policy: no valid YAML: %w", err)
	}
	strict, err := json.UnmarshalStrict(asJSON, &doc)
	if wrong, ok := errors.AsType[*gojson.UnmarshalTypeError](err); ok {
		return doc, nil, structureError(wrong)
	}
	if err != nil {
		return doc, nil, fmt.Errorf("policy: %w", err)
	}
	for _, err := range strict {
		field, ok := errors.AsType[json.FieldError](err)
		if !ok {
			return doc, nil, fmt.Errorf("policy: %w", err)
		}
		faults = append(faults, &FieldError{Path: field.FieldPath(), Allowed: "unknown field"})
	}
	return doc, faults, nil
}

// structureError describes a value that should be a list or a mapping.
func structureError(wrong *gojson.UnmarshalTypeError) error {
	path := wrong.Field
	if path == "" {
		path = "policy"
	}
	want := "a mapping"
	if wrong.Type.Kind() == reflect.Slice {
		want = "a list"
	}
	return &FieldError{Path: path, Value: wrong.Value, Allowed: "want " + want}
}
