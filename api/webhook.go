package api

import (
	"errors"
	"fmt"
	"maps"
	"math"
)

// AddLockable asks for more lockable memory, in addition to the request in the annotations.
// Admission webhooks call it in any order, each with the need of its own device or daemon, and the
// amounts add up.
//
// It sets [RequiresLockKey] to "true", adds to [ValueKey] ("unlimited" stays), and writes an absent
// [APIVersionKey]. The addition must count for every scope. AddLockable therefore changes each
// existing scope of a key (KEY/pod, KEY/container.NAME), and writes KEY itself unless KEY/pod
// exists.
//
// The errors are a nil map, negative bytes, a sum above an int64, a malformed existing value
// ([*InvalidError]) and an unknown api-version. After an error the map is unchanged.
func AddLockable(annotations map[string]string, bytes int64) error {
	switch {
	case annotations == nil:
		return errors.New("add lockable memory: the annotations are a nil map")
	case bytes < 0:
		return fmt.Errorf("add lockable memory: %d bytes: want zero or more", bytes)
	}
	if err := checkVersion(annotations); err != nil {
		return fmt.Errorf("add lockable memory: %w", err)
	}
	add := func(value string) (string, error) { return addBytes(value, bytes) }
	value, err := rewrite(annotations, ValueKey, "0", add)
	if err != nil {
		return fmt.Errorf("add lockable memory: %w", err)
	}
	require, err := rewrite(annotations, RequiresLockKey, "true", mustLock)
	if err != nil {
		return fmt.Errorf("add lockable memory: %w", err)
	}
	maps.Copy(annotations, value)
	maps.Copy(annotations, require)
	if _, _, ok := Effective(annotations, APIVersionKey, ""); !ok {
		annotations[APIVersionKey] = APIVersion
	}
	return nil
}

// rewrite returns the new value of a key at each scope: change of an existing value, and initial
// for the whole pod if the pod has none.
func rewrite(
	annotations map[string]string, base, initial string, change func(string) (string, error),
) (map[string]string, error) {
	changed := map[string]string{}
	if _, ok := annotations[base+"/"+podScope]; !ok {
		changed[base] = initial
	}
	for key, value := range annotations {
		if baseKey(key) == base {
			changed[key] = value
		}
	}
	var faults []*InvalidError
	for key, value := range changed {
		next, err := change(value)
		if fault := checkKey(key, value); fault != nil {
			faults = append(faults, fault)
		} else if err != nil {
			faults = append(faults, keyed(key, value, err))
		}
		changed[key] = next
	}
	return changed, joinFaults(faults)
}

func addBytes(value string, bytes int64) (string, error) {
	l, err := ParseLockable(value)
	switch {
	case err != nil:
		return "", err
	case l.Unlimited:
		return value, nil
	case bytes > math.MaxInt64-l.Bytes:
		return "", invalid(value, "adding %d bytes makes more than %d", bytes, int64(math.MaxInt64))
	}
	return Bytes(l.Bytes + bytes).String(), nil
}

// mustLock turns either answer into "true". A malformed value stays an error.
func mustLock(value string) (string, error) {
	_, err := parseBool(value)
	return "true", err
}
