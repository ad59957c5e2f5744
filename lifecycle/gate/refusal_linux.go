package gate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// RefusalsName is the file name of the refusals in the agent's tmpfs.
	RefusalsName = "gate-refusals"

	// maxRefusals bounds the size of the file, in bytes. An agent that is away reads none.
	maxRefusals = 64 << 10
	maxReason   = 1000 // bytes

	// lockTries bounds the wait for the agent, which reads the file.
	lockTries = 3
)

// Refusal is a start that the gate would refuse in enforce mode.
type Refusal struct {
	At     time.Duration `json:"at"` // since the node's boot
	Domain string        `json:"domain"`
	Reason string        `json:"reason"`
}

// record adds the refusal to the file at path. A full file stays as it is.
func (r Refusal) record(path string) error {
	r.Reason = r.Reason[:min(len(r.Reason), maxReason)]
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := openRefusals(path, os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Size()+int64(len(text)) >= maxRefusals:
		return fmt.Errorf("%s: %d bytes: want less than %d", path, info.Size(), maxRefusals)
	}
	_, err = f.Write(append(text, '\n'))
	return err
}

// TakeRefusals returns the refusals in the file at path, and empties the file. It skips damaged
// lines and reports them in the error.
func TakeRefusals(path string) (all []Refusal, err error) {
	f, err := openRefusals(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the start gate's refusals: %w", err)
	}
	defer f.Close()
	var errs []error
	lines := bufio.NewScanner(io.LimitReader(f, maxRefusals))
	for lines.Scan() {
		var r Refusal
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	if err := errors.Join(append(errs, lines.Err(), f.Truncate(0))...); err != nil {
		return all, fmt.Errorf("read the start gate's refusals: %w", err)
	}
	return all, nil
}

// openRefusals opens the file and locks it until its close.
func openRefusals(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	for range lockTries {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		<-time.After(retryPeriod)
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}
