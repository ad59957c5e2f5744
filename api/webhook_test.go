package api

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAddLockable(t *testing.T) {
	const container = ValueKey + "/container.compute"
	for name, c := range map[string]struct {
		before map[string]string
		bytes  int64
		want   map[string]string
	}{
		"no value yet": {map[string]string{}, 1 << 30,
			map[string]string{ValueKey: "1Gi", RequiresLockKey: "true", APIVersionKey: "v1alpha1"}},
		"add 0 bytes": {map[string]string{}, 0,
			map[string]string{ValueKey: "0", RequiresLockKey: "true", APIVersionKey: "v1alpha1"}},
		"something there": {map[string]string{ValueKey: "1.5Gi"}, 1 << 29,
			map[string]string{ValueKey: "2Gi", RequiresLockKey: "true", APIVersionKey: "v1alpha1"}},
		"unlimited stays": {map[string]string{ValueKey: "unlimited"}, math.MaxInt64,
			map[string]string{ValueKey: "unlimited", RequiresLockKey: "true",
				APIVersionKey: "v1alpha1"}},
		"false becomes true": {map[string]string{RequiresLockKey: "false"}, 1,
			map[string]string{ValueKey: "1", RequiresLockKey: "true", APIVersionKey: "v1alpha1"}},
		"others stay": {map[string]string{"a": "b", "typo.mooring.dev": "x"}, 1,
			map[string]string{"a": "b", "typo.mooring.dev": "x", ValueKey: "1",
				RequiresLockKey: "true", APIVersionKey: "v1alpha1"}},
		"version for the pod": {map[string]string{APIVersionKey + "/pod": "v1alpha1"}, 1,
			map[string]string{APIVersionKey + "/pod": "v1alpha1", ValueKey: "1",
				RequiresLockKey: "true"}},
		"the pod's": {map[string]string{ValueKey + "/pod": "1", RequiresLockKey + "/pod": "false"},
			1, map[string]string{ValueKey + "/pod": "2", RequiresLockKey + "/pod": "true",
				APIVersionKey: "v1alpha1"}},
		"a container's": {map[string]string{container: "1Ki",
			RequiresLockKey + "/container.compute": "false"}, 1, map[string]string{
			container: "1025", ValueKey: "1", RequiresLockKey: "true",
			RequiresLockKey + "/container.compute": "true", APIVersionKey: "v1alpha1"}},
		"every scope": {map[string]string{ValueKey: "1", ValueKey + "/pod": "2",
			container: "unlimited"}, 1, map[string]string{
			ValueKey: "2", ValueKey + "/pod": "3", container: "unlimited", RequiresLockKey: "true",
			APIVersionKey: "v1alpha1"}},
		"up to the end": {map[string]string{ValueKey: "1"}, math.MaxInt64 - 1,
			map[string]string{ValueKey: "9223372036854775807", RequiresLockKey: "true",
				APIVersionKey: "v1alpha1"}},
	} {
		if err := AddLockable(c.before, c.bytes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, c.before); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestAddLockableRefuses(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		bytes       int64
		want        string
	}{
		{nil, 1, "nil map"},
		{map[string]string{}, -1, "-1 bytes: want zero or more"},
		{map[string]string{}, math.MinInt64, "want zero or more"},
		{map[string]string{ValueKey: "1"}, math.MaxInt64, "makes more than 9223372036854775807"},
		{map[string]string{ValueKey: "1e30"}, 1,
			`annotation value.memlock.mooring.dev: "1e30": want a whole number`},
		{map[string]string{ValueKey: ""}, 1, "want a whole number"},
		{map[string]string{ValueKey: "-1"}, 0, "want a whole number"},
		{map[string]string{ValueKey: "1", ValueKey + "/container.other": "x"}, 1,
			"/container.other"},
		{map[string]string{ValueKey + "/pods": "1"}, 1, "unknown scope"},
		{map[string]string{RequiresLockKey: "yes"}, 1,
			`requires-lock.memlock.mooring.dev: "yes": want "true" or "false"`},
		{map[string]string{RequiresLockKey + "/": "true"}, 1, "unknown scope"},
		{map[string]string{APIVersionKey: "v2"}, 1, "this node understands v1alpha1"},
	} {
		before := maps.Clone(c.annotations)
		err := AddLockable(c.annotations, c.bytes)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("AddLockable(%v, %d) = %v, want %q", before, c.bytes, err, c.want)
		}
		if !maps.Equal(before, c.annotations) {
			t.Errorf("AddLockable(%v, %d) failed, and changed it to %v", before, c.bytes,
				c.annotations)
		}
	}
}

// Several webhooks reach the same sum in any order, with any scopes present before.
func TestAddLockableAddsUp(t *testing.T) {
	amount := rapid.Int64Range(0, 1<<40)
	rapid.Check(t, func(t *rapid.T) {
		before := map[string]string{}
		for _, scope := range rapid.SliceOf(
			rapid.SampledFrom([]string{"", "/pod", "/container.compute", "/container.other"})).Draw(
			t, "scopes") {
			before[ValueKey+scope] = Bytes(amount.Draw(t, "before")).String()
		}
		want := int64(0)
		if l, err := Parse(before, "compute"); err == nil && l.Value != nil {
			want = l.Value.Bytes
		}
		amounts := rapid.SliceOfN(amount, 1, 5).Draw(t, "amounts")
		forward, backward := maps.Clone(before), maps.Clone(before)
		for i := range amounts {
			want += amounts[i]
			if err := AddLockable(forward, amounts[i]); err != nil {
				t.Fatal(err)
			}
			if err := AddLockable(backward, amounts[len(amounts)-1-i]); err != nil {
				t.Fatal(err)
			}
		}
		if !maps.Equal(forward, backward) {
			t.Fatalf("the order matters: %v, %v", forward, backward)
		}
		r, err := Parse(forward, "compute")
		if err != nil || r.Value.Bytes != want || !*r.RequiresLock {
			t.Fatalf("%v plus %v: got %+v, %v, want %d", before, amounts, r.Value, err, want)
		}
	})
}

func FuzzAddLockable(f *testing.F) {
	f.Add("value.memlock.mooring.dev=1Gi", int64(1<<30))
	f.Add("value.memlock.mooring.dev/pod=unlimited\nrequires-lock.memlock.mooring.dev=false",
		int64(1))
	f.Add("value.memlock.mooring.dev/container.compute=9223372036854775807\n"+
		"requires-lock.memlock.mooring.dev/container.compute=x", int64(1))
	f.Add("api-version.mooring.dev=v2", int64(-1))
	f.Fuzz(func(t *testing.T, text string, bytes int64) {
		annotations := annotationLines(text)
		before := maps.Clone(annotations)
		if err := AddLockable(annotations, bytes); err != nil {
			if !maps.Equal(before, annotations) {
				t.Errorf("%q: failed with %v, and changed it to %v", text, err, annotations)
			}
			return
		}
		checkAdded(t, before, annotations, bytes)
	})
}

// checkAdded checks the memory lock that a launcher named compute reads before and after a change.
func checkAdded(t *testing.T, before, after map[string]string, bytes int64) {
	t.Helper()
	old := Lockable{}
	if _, value, ok := Effective(before, ValueKey, "compute"); ok {
		l, err := ParseLockable(value)
		if err != nil {
			t.Fatalf("added to a malformed %q", value)
		}
		old = l
	}
	_, value, _ := Effective(after, ValueKey, "compute")
	got, err := ParseLockable(value)
	if want := (Lockable{Bytes: old.Bytes + bytes}); err != nil || !old.Unlimited && got != want ||
		old.Unlimited != got.Unlimited {
		t.Errorf("%v and %d bytes: got %v, %v", before, bytes, after, err)
	}
	if _, lock, _ := Effective(after, RequiresLockKey, "compute"); lock != "true" {
		t.Errorf("%v does not require the lock", after)
	}
	if err := checkVersion(after); err != nil {
		t.Error(err)
	}
}
