package launcher

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mooring-vm/mooring/api"
)

// Reserved is spec.domain.memory.reservedOverhead in the early format of VEP 144: requiresLock and
// value. The fields of KubeVirt 1.8 and newer, memLock and addedOverhead, are part of its API.
type Reserved struct {
	RequiresLock bool
	Value        int64 // bytes
}

// ReadReserved reads the early format from an unstructured VirtualMachineInstance. It is empty if
// the API server pruned the fields. The error names field, value and allowed values.
func ReadReserved(vmi map[string]any) (Reserved, error) {
	const at = "spec.domain.memory.reservedOverhead"
	fields, ok, err := unstructured.NestedMap(vmi, "spec", "domain", "memory", "reservedOverhead")
	if err != nil {
		return Reserved{}, fmt.Errorf("%s: want a mapping", at)
	}
	if !ok {
		return Reserved{}, nil
	}
	var r Reserved
	if r.RequiresLock, err = readFlag(fields["requiresLock"]); err != nil {
		return Reserved{}, fmt.Errorf("%s.requiresLock: %w", at, err)
	}
	if r.Value, err = readAmount(fields["value"]); err != nil {
		return Reserved{}, fmt.Errorf("%s.value: %w", at, err)
	}
	return r, nil
}

func readFlag(v any) (bool, error) {
	switch v {
	case nil, false, "false":
		return false, nil
	case true, "true":
		return true, nil
	}
	return false, fmt.Errorf("%#v: want true or false", v)
}

func readAmount(v any) (int64, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case string:
		b, err := api.ParseBytes(v)
		return int64(b), err
	case int64:
		if v >= 0 {
			return v, nil
		}
	case float64:
		if v >= 0 && v < math.MaxInt64 && v == math.Trunc(v) {
			return int64(v), nil
		}
	}
	return 0, fmt.Errorf("%#v: want a quantity of bytes such as 1Gi", v)
}
