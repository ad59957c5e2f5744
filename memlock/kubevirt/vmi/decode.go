package vmi

import (
	gojson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/json"
)

// Some types of KubeVirt's API decode themselves and ignore unknown fields. These types replace
// them.
type (
	vmiObject struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            vmiSpec           `json:"spec"`
		// not read: newer versions have more fields
		Status gojson.RawMessage `json:"status"`
	}
	vmObject struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            vmSpec            `json:"spec"`
		Status          gojson.RawMessage `json:"status"`
	}
	vmSpec struct {
		v1.VirtualMachineSpec `json:",inline"`
		Template              *vmiTemplate `json:"template"`
	}
	vmiTemplate struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     vmiSpec           `json:"spec"`
	}
	vmiSpec     v1.VirtualMachineInstanceSpec
	podNetwork  v1.PodNetwork
	dhcpOptions v1.DHCPOptions
)

// apiVersion is that of kubevirt.io/api in go.mod.
const apiVersion = "1.9.0"

// decode fills an object strictly. Its VirtualMachineInstanceSpec is at path. It reports as many
// faults as it can.
func decode(object []byte, into any, path ...string) error {
	raw := rawAt(object, path)
	at := strings.Join(path, ".")
	if err := raw.checkQuantities(at); err != nil {
		return err
	}
	if err := decodeStrict(object, into, ""); err != nil {
		return err
	}
	return raw.checkLenient(at)
}

// decodeStrict fills a part of an object at path. It reports all unknown fields at once.
func decodeStrict(part []byte, into any, path string) error {
	if path != "" {
		path += "."
	}
	strict, err := json.UnmarshalStrict(part, into)
	if wrong, ok := errors.AsType[*gojson.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s%s: %s: want %s", path, wrong.Field, wrong.Value,
			describeType(wrong.Type))
	}
	if err != nil {
		return fmt.Errorf("VM: %w", err)
	}
	var faults []error
	for _, err := range strict {
		if field, ok := errors.AsType[json.FieldError](err); ok {
			err = fmt.Errorf("%s%s: unknown field: not in the API of KubeVirt %s",
				path, field.FieldPath(), apiVersion+hint(field.FieldPath()))
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// hint returns KubeVirt's word for a word of VEP 144.
func hint(field string) string {
	switch {
	case strings.HasSuffix(field, "reservedOverhead.requiresLock"):
		return "; KubeVirt's word for VEP 144's requiresLock is memLock: Required"
	case strings.HasSuffix(field, "reservedOverhead.value"):
		return "; KubeVirt's word for VEP 144's value is addedOverhead"
	}
	return ""
}

// describeType returns the name of a type for people.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	}
	return "a number"
}
