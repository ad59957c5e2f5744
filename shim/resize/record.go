package resize

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Phase is how far a run is.
type Phase string

// The phases of a run.
const (
	Running     Phase = "running" // its steps are done
	RollingBack Phase = "undoing" // what was begun is taken back
	Ended       Phase = "ended"   // the report says how
)

// Record is what the journal has of a run: enough to finish or undo it after the death
// of whoever ran it.
type Record struct {
	Domain string        `json:"domain"` // UUID
	Target target.Target `json:"target"`
	Phase  Phase         `json:"phase"`

	// Steps are those of all plans of the run. The first Begun of them may have taken
	// effect, and the first Confirmed are known to have.
	Steps     Steps `json:"steps"`
	Started   int   `json:"begun"`
	Confirmed int   `json:"confirmed"`

	Report *Report `json:"report,omitempty"` // of a run that has ended
}

// Journal keeps the Record of the last run.
type Journal interface {
	// Load returns the record, or ErrNoRecord. Any other error means that there is one
	// that cannot be read; it has been set aside.
	Load() (Record, error)

	// Store replaces the record. It returns when the new one would survive a crash; if
	// it fails, the journal has the old or the new one.
	Store(Record) error
}

// ErrNoRecord says that the journal is empty.
var ErrNoRecord = errors.New("the journal has no record")

// recordVersion is the version of the record's JSON.
const recordVersion = 2

// maxSteps bounds the steps of a record. A run has more only if what is wanted changes
// many times while it lasts; the oldest cannot be undone then.
const maxSteps = 100

// stored is a record with its version, which is read first.
type versionedRecord struct {
	Version int             `json:"version"`
	Record  json.RawMessage `json:"record"`
}

// Encode returns the record as JSON with its version.
func (r Record) Encode() ([]byte, error) {
	record, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record of a resize: %w", err)
	}
	return json.Marshal(versionedRecord{recordVersion, record})
}

// DecodeRecord reads what Encode wrote. It is strict: the errors are another version, an
// unknown field, kind of step or phase, and counts that do not fit.
func DecodeRecord(text []byte) (Record, error) {
	var s versionedRecord
	var r Record
	if err := decodeStrict(text, &s); err != nil {
		return Record{}, fmt.Errorf("record of a resize: %w", err)
	}
	if s.Version != recordVersion {
		return Record{}, fmt.Errorf("record of a resize: version %d: want %d", s.Version, recordVersion)
	}
	if err := decodeStrict(s.Record, &r); err != nil {
		return Record{}, fmt.Errorf("record of a resize: %w", err)
	}
	if err := r.check(); err != nil {
		return Record{}, fmt.Errorf("record of a resize: %w", err)
	}
	return r, nil
}

func (r Record) check() error {
	switch r.Phase {
	case Running, RollingBack, Ended:
	default:
		return fmt.Errorf("phase %q: want %s, %s or %s", r.Phase, Running, RollingBack, Ended)
	}
	if n := len(r.Steps); n > 2*maxSteps {
		return fmt.Errorf("steps: %d: want at most %d", n, 2*maxSteps)
	}
	if r.Confirmed < 0 || r.Started < r.Confirmed || len(r.Steps) < r.Started {
		return fmt.Errorf("%d steps begun and %d confirmed of %d: want no more confirmed than begun, nor begun than there are",
			r.Started, r.Confirmed, len(r.Steps))
	}
	if r.Phase == Ended && r.Report == nil {
		return errors.New("report: there is none, and the run has ended")
	}
	return nil
}

// adopt replaces the steps that were not begun.
func (r *Record) replacePlan(p Plan) {
	started := r.Steps[:r.Started]
	if drop := len(started) - maxSteps; drop > 0 {
		started = started[drop:]
	}
	r.Steps = append(append(Steps{}, started...), p.Steps...)
	r.Started, r.Confirmed = len(started), min(r.Confirmed, len(started))
	r.Target, r.Phase, r.Report = p.Target, Running, nil
}
