package api

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// Rendered records the resources of a launcher container at the creation of its pod. A comparison
// with the current resources shows an in-place resize.
type Rendered struct {
	Requests Amounts `json:"requests"`
	Limits   Amounts `json:"limits"`
}

// Amounts are CPU in thousandths and memory in bytes, both rounded up. nil is no amount.
type Amounts struct {
	CPU, Memory *int64
}

// MaxMilliCPU is more CPU, in thousandths, than any machine has.
const MaxMilliCPU = 1000 * 1000 * MaxVCPUs

const wantRendered = `want the webhook's own JSON, such as ` +
	`{"requests":{"cpu":"100m","memory":"2Gi"},"limits":{}}`

// String returns the annotation value. [ParseRendered] reads it back to the same amounts.
func (r Rendered) String() string {
	text, _ := json.Marshal(r) // only strings: cannot fail
	return string(text)
}

// ParseRendered reads the text of [Rendered.String] strictly. The error is an [*InvalidError]
// without key.
func ParseRendered(s string) (Rendered, error) {
	var r Rendered
	decoder := json.NewDecoder(strings.NewReader(s))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return Rendered{}, invalid(s, wantRendered)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Rendered{}, invalid(s, wantRendered)
	}
	return r, nil
}

// MarshalJSON implements json.Marshaler.
func (a Amounts) MarshalJSON() ([]byte, error) {
	texts := map[string]string{}
	if a.CPU != nil {
		texts["cpu"] = strconv.FormatInt(*a.CPU, 10) + "m"
	}
	if a.Memory != nil {
		texts["memory"] = Bytes(*a.Memory).String()
	}
	return json.Marshal(texts)
}

// UnmarshalJSON implements json.Unmarshaler. The error is an [*InvalidError], or says that the JSON
// does not map names to strings.
func (a *Amounts) UnmarshalJSON(text []byte) error {
	var texts map[string]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	*a = Amounts{}
	for name, value := range texts {
		if err := a.set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (a *Amounts) set(name, value string) error {
	switch name {
	case "cpu":
		digits, ok := strings.CutSuffix(value, "m")
		n, fits := parseCount(digits, 0, MaxMilliCPU)
		if !ok || !fits {
			return invalid(value, "want thousandths of a CPU such as 1500m")
		}
		a.CPU = &n
	case "memory":
		b, err := ParseBytes(value)
		if err != nil {
			return err
		}
		a.Memory = new(int64(b))
	default:
		return invalid(name, "want cpu or memory")
	}
	return nil
}
