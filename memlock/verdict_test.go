package memlock

import "testing"

// The words of a result. With a missing input there is no confident answer.
func TestResultInWords(t *testing.T) {
	five, err := Limited("devices", Term{"memory", 5 * gi})
	if err != nil {
		t.Fatal(err)
	}
	odd, err := Limited("devices", Term{"memory", 5*gi + 1})
	if err != nil {
		t.Fatal(err)
	}
	missing := func(r Result) Result {
		r.Unknown = []string{"network \"a\" may pass a device", "a hook may add one"}
		return r
	}
	const because = "because network \"a\" may pass a device; a hook may add one"
	for _, c := range []struct {
		result  Result
		verdict Verdict
		text    string
	}{
		{Result{Reason: "no device"}, VerdictNone, "none needed"},
		{five, VerdictLimit, "5Gi (5368709120 bytes)"},
		{odd, VerdictLimit, "5368709121 bytes (5.00 GiB)"},
		{Infinite("locked"), VerdictUnlimited, "unlimited"},
		{missing(Result{Reason: "no device"}), VerdictUnknown, "unknown, " + because},
		{missing(five), VerdictUnknown, "unknown, at least 5Gi (5368709120 bytes), " + because},
		{missing(Infinite("locked")), VerdictUnlimited, "unlimited"},
	} {
		if got := c.result.Verdict(); got != c.verdict {
			t.Errorf("%+v: verdict %q, want %q", c.result, got, c.verdict)
		}
		if got := c.result.String(); got != c.text {
			t.Errorf("%+v: %q, want %q", c.result, got, c.text)
		}
	}
}

// The larger limit counts, and no missing input is lost.
func TestVEP144KeepsUnknown(t *testing.T) {
	five, err := Limited("libvirt", Term{"hard_limit", 5 * gi})
	if err != nil {
		t.Fatal(err)
	}
	five.Unknown = []string{"an argument of QEMU"}
	for _, d := range []Demand{
		{Libvirt: five},
		{Libvirt: five, RequiresLock: true, Base: []Term{{"guest memory", gi}}},
		{Libvirt: five, RequiresLock: true, Base: []Term{{"guest memory", 8 * gi}}},
	} {
		got, err := VEP144(d, "because")
		if err != nil || got.Verdict() != VerdictUnknown || got.Bytes < 5*gi {
			t.Errorf("%+v: %+v, %v", d, got, err)
		}
	}
}
