package resize_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/wanted"
)

// everyStep has one step of each kind.
func everyStep() resize.Steps {
	room := resize.Room{Max: resize.NoLimit, Memory: gi, VCPUs: 2}
	return resize.Steps{
		resize.AwaitRoom{Need: 1, Bound: 1}, resize.SettleMemory{Alias: "a"}, resize.SetVCPUs{From: 1, To: 2, Room: room},
		resize.SetBandwidth{Quota: -1}, resize.RaiseLock{To: resize.NoLimit}, resize.RequestMemory{Alias: "a", To: 1, Room: room},
		resize.AttachDIMM{Known: []string{"b"}}, resize.DetachDIMM{Alias: "b"}, resize.SetBalloon{To: 1},
		resize.AwaitLimit{Limit: 1}, resize.LowerLock{To: 1, Beyond: 2},
	}
}

func TestRecordIsReadBack(t *testing.T) {
	want := resize.Record{
		Domain: "uuid", Phase: resize.Ended, Steps: everyStep(), Begun: 3, Confirmed: 2,
		Wanted: resize.Wanted{Generation: 7, Size: wanted.Size{Memory: gi, Bandwidth: &wanted.Bandwidth{Quota: -1}}},
		Report: &resize.Report{Steps: []resize.StepReport{{What: "x", Undo: true, Error: "y"}}, Actual: &resize.Actual{PodMax: resize.NoLimit}},
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

func TestBadRecords(t *testing.T) {
	for text, want := range map[string]string{
		``:                          "EOF",
		`{}`:                        "version 0: want 1",
		`{"version":2,"record":{}}`: "version 2: want 1",
		`{"version":1,"record":{"phase":"done"}}`:                                                    `phase "done": want running, undoing or ended`,
		`{"version":1,"record":{"phase":"running","more":1}}`:                                        "more",
		`{"version":1,"record":{"phase":"running","steps":[{"kind":"reboot","step":{}}]}}`:           `step of kind "reboot": unknown`,
		`{"version":1,"record":{"phase":"running","steps":[{"kind":"set-vcpus","step":{"all":1}}]}}`: `step of kind "set-vcpus"`,
		`{"version":1,"record":{"phase":"running","begun":1}}`:                                       "1 steps begun and 0 confirmed of 0",
		`{"version":1,"record":{"phase":"running","begun":-1,"confirmed":-1}}`:                       "-1 steps begun",
		`{"version":1,"record":{"phase":"ended"}}`:                                                   "report: there is none",
		`{"version":1,"record":{"phase":"running"}} {}`:                                              "something follows",
	} {
		got, err := resize.DecodeRecord([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !cmp.Equal(got, resize.Record{}) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
	}
}

// What is read can be written, and read again as the same.
func FuzzDecodeRecord(f *testing.F) {
	text, err := resize.Record{Phase: resize.Running, Steps: everyStep(), Begun: 2}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"record":{"phase":"ended","report":{"steps":null,"actual":{}}}}`))
	f.Add([]byte(`{"version":1,"record":{"phase":"running","steps":[null]}}`))
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

// A step tells people all of itself.
func TestStepsTell(t *testing.T) {
	for _, s := range everyStep() {
		if s.String() == "" || s.ConfirmedBy() == "" || s.UndoneBy() == "" {
			t.Errorf("%#v tells too little", s)
		}
	}
}
