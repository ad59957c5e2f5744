package resize_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// allSteps has one step of each kind.
func allSteps() resize.Steps {
	room := resize.SizeLimit{Max: resize.NoLimit, Memory: gi, VCPUs: 2}
	return resize.Steps{
		resize.AwaitRaisedLimit{
			AtLeast: 1,
			Within:  1,
		},
		resize.SettleMemory{Alias: "a"},
		resize.SetVCPUs{From: 1, To: 2, SizeLimit: room},
		resize.SetBandwidth{
			Quota:      -1,
			FromShares: 100,
			Shares:     200,
		},
		resize.RaiseLock{To: resize.NoLimit},
		resize.RequestMemory{Alias: "a", To: 1, SizeLimit: room},
		resize.AttachDIMM{
			Known: []string{"b"},
		},
		resize.DetachDIMM{Alias: "b"},
		resize.SetBalloon{To: 1},
		resize.AwaitLoweredLimit{AtMost: 1},
		resize.LowerLock{To: 1},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	want := resize.Record{
		Domain:    "uuid",
		Phase:     resize.Ended,
		Steps:     allSteps(),
		Started:   3,
		Confirmed: 2,
		Target: target.Target{
			Generation: 7,
			Size:       api.Size{Memory: gi, CPUShares: 200},
			Bandwidth:  &target.Bandwidth{Quota: -1},
		},
		Report: &resize.Report{
			Steps:  []resize.StepReport{{Description: "x", Rollback: true, Error: "y"}},
			Actual: &resize.Actual{PodMax: resize.NoLimit, Shares: 200},
		},
	}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := resize.DecodeRecord(text)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// A step without shares keeps them.
func TestRecordWithoutShares(t *testing.T) {
	const without = `{"version":2,"record":{"domain":"uuid","target":{"generation":7,"size":{},` +
		`"bandwidth":{"period":100000000,"quota":50000000}},"phase":"running",` +
		`"steps":[{"kind":"set-bandwidth","step":{"fromPeriod":100000000,"fromQuota":-1,` +
		`"period":100000000,"quota":50000000,"bound":10000000000}}],` +
		`"begun":1,"confirmed":0}}`
	got, err := resize.DecodeRecord([]byte(without))
	if err != nil {
		t.Fatal(err)
	}
	want := resize.Steps{
		resize.SetBandwidth{
			FromPeriod: 100 * time.Millisecond,
			FromQuota:  virt.Unlimited,
			Period:     100 * time.Millisecond,
			Quota:      50 * time.Millisecond,
			Within:     10 * time.Second,
		},
	}
	if diff := cmp.Diff(want, got.Steps); diff != "" || got.Target.CPUShares != 0 {
		t.Errorf("%+v (-want +got)\n%s", got.Target, diff)
	}
	again, err := got.Encode()
	if string(again) != without || err != nil {
		t.Errorf("%v, %s is written as %s", err, without, again)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vmWithShares(t, 50))
		r.m.state.Bandwidth.Quota = 50 * time.Millisecond
		got.Domain, got.Phase = r.m.state.UUID, resize.RollingBack
		if err := r.journal.Store(got); err != nil {
			t.Fatal(err)
		}
		_, _, _ = r.Recover(t.Context(), func() target.Target { return target.Target{} })
		if b := r.m.state.Bandwidth; b.Quota != virt.Unlimited || b.Shares != 50 {
			t.Errorf("rolled back to %+v", b)
		}
	})
}

func TestBadRecords(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "EOF"},
		{`{}`, "version 0: want 2"},
		{`{"version":1,"record":{}}`, "version 1: want 2"},
		{`{"version":2,"record":{"phase":"done"}}`, `phase "done": want running, undoing or ended`},
		{`{"version":2,"record":{"phase":"running","more":1}}`, "more"},
		{`{"version":2,"record":{"phase":"running","steps":[{"kind":"reboot","step":{}}]}}`,
			`step of kind "reboot": unknown`},
		{
			`{"version":2,"record":{"phase":"running","steps":[{"kind":"set-vcpus","step":{"all":1}}]}}`,
			`step of kind "set-vcpus"`},
		{`{"version":2,"record":{"phase":"running","begun":1}}`,
			"1 steps started and 0 confirmed of 0"},
		{`{"version":2,"record":{"phase":"running","begun":-1,"confirmed":-1}}`,
			"-1 steps started"},
		{`{"version":2,"record":{"phase":"ended"}}`, "report: missing"},
		{`{"version":2,"record":{"phase":"running"}} {}`, "data after the JSON value"},
	} {
		got, err := resize.DecodeRecord([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!cmp.Equal(got, resize.Record{}) {
			t.Errorf("%s: got %+v, %v, want %q", c.text, got, err, c.want)
		}
	}
}

// A decoded record encodes and decodes to the same.
func FuzzDecodeRecord(f *testing.F) {
	text, err := resize.Record{Phase: resize.Running, Steps: allSteps(), Started: 2}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":2,"record":{"phase":"ended","report":{"steps":null,"actual":{}}}}`))
	f.Add([]byte(`{"version":2,"record":{"phase":"running","steps":[null]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		record, err := resize.DecodeRecord(text)
		if err != nil {
			return
		}
		again, err := record.Encode()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		read, err := resize.DecodeRecord(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		twice, err := read.Encode()
		if diff := cmp.Diff(string(again), string(twice)); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestStepDescriptions(t *testing.T) {
	for _, s := range allSteps() {
		if s.String() == "" {
			t.Errorf("%#v has no description", s)
		}
	}
}
