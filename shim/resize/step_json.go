package resize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// kind names a step's type in the journal.
type kind string

const (
	kindAwaitRaisedLimit  kind = "await-room"
	kindAwaitLoweredLimit kind = "await-limit"
	kindRaiseLock         kind = "raise-lock"
	kindLowerLock         kind = "lower-lock"
	kindRequestMemory     kind = "request-memory"
	kindSettleMemory      kind = "settle-memory"
	kindAttachVirtioMem   kind = "attach-virtio-mem"
	kindAttachDIMM        kind = "attach-dimm"
	kindDetachDIMM        kind = "detach-dimm"
	kindSetBalloon        kind = "set-balloon"
	kindSetVCPUs          kind = "set-vcpus"
	kindSetBandwidth      kind = "set-bandwidth"
)

// Steps are steps in their order. They can be written as JSON and read back.
type Steps []Step

// Descriptions describes each step in one line.
func (s Steps) Descriptions() []string {
	all := make([]string, 0, len(s))
	for _, step := range s {
		all = append(all, step.String())
	}
	return all
}

// stepJSON is the JSON form of a step.
type stepJSON struct {
	Kind kind            `json:"kind"`
	Step json.RawMessage `json:"step"`
}

// MarshalJSON implements json.Marshaler.
func (s Steps) MarshalJSON() ([]byte, error) {
	all := make([]stepJSON, 0, len(s))
	for _, step := range s {
		text, err := json.Marshal(step)
		if err != nil {
			return nil, err
		}
		all = append(all, stepJSON{step.kind(), text})
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler. It rejects unknown kinds and unknown fields.
func (s *Steps) UnmarshalJSON(text []byte) error {
	var all []stepJSON
	if err := decodeStrict(text, &all); err != nil {
		return err
	}
	steps := make(Steps, 0, len(all))
	for _, n := range all {
		step, err := n.decode()
		if err != nil {
			return fmt.Errorf("step of kind %q: %w", n.Kind, err)
		}
		steps = append(steps, step)
	}
	*s = steps
	return nil
}

func (n stepJSON) decode() (Step, error) {
	switch n.Kind {
	case kindAwaitRaisedLimit:
		return decodeStep[AwaitRaisedLimit](n.Step)
	case kindAwaitLoweredLimit:
		return decodeStep[AwaitLoweredLimit](n.Step)
	case kindRaiseLock:
		return decodeStep[RaiseLock](n.Step)
	case kindLowerLock:
		return decodeStep[LowerLock](n.Step)
	case kindRequestMemory:
		return decodeStep[RequestMemory](n.Step)
	case kindSettleMemory:
		return decodeStep[SettleMemory](n.Step)
	case kindAttachVirtioMem:
		return decodeStep[AttachVirtioMem](n.Step)
	case kindAttachDIMM:
		return decodeStep[AttachDIMM](n.Step)
	case kindDetachDIMM:
		return decodeStep[DetachDIMM](n.Step)
	case kindSetBalloon:
		return decodeStep[SetBalloon](n.Step)
	case kindSetVCPUs:
		return decodeStep[SetVCPUs](n.Step)
	case kindSetBandwidth:
		return decodeStep[SetBandwidth](n.Step)
	}
	return nil, fmt.Errorf(
		"unknown: want one from %s to %s", kindAwaitRaisedLimit, kindSetBandwidth,
	)
}

func decodeStep[S Step](text []byte) (Step, error) {
	var s S
	err := decodeStrict(text, &s)
	return s, err
}

func decodeStrict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON value: want one value")
	}
	return nil
}
