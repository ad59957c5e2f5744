package api

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// hostileQuantities are typing errors and attacks. None of them is an amount of memory.
func hostileQuantities() []string {
	return []string{
		"", " ", "4Gi ", " 4Gi", "4 Gi", "\t4Gi", "4Gi\n", "4Gi\x00",
		"-1", "-4Gi", "+4Gi", "--4", "−4Gi",
		"1e3", "1E3", "1e30", "1e-3", "1e", "0x10", "0b1", "1_000", "1,000", "1'000",
		"1m", "1000m", "1u", "1n", "0.5", "0.1Gi", "1.5", ".5Gi", "5.Gi", "1..5Gi",
		"0.9999999999999",
		"4gi", "4GI", "4Gb", "16Gb", "4GiB", "4g", "4K", "4i", "Gi", "4Gi4", "4 GiB", "4Gi;", "4%",
		"8Ei", "8.0Ei", "9223372036854775808", "9223372036854775807Ki", "99999999999999999999",
		"10E",
		strings.Repeat("9", 4096), strings.Repeat("0", 64) + "1", "1" + strings.Repeat("0", 64),
		"unlimitted", "Unlimited", "UNLIMITED", "infinity", "inf", "NaN", "nan", "max", "none",
		"null", "true",
		"٤Gi", "\uff14Gi", "४", "Ⅳ", "4\u200bGi", "\ufeff4Gi", "4\u0131", "\xff\xfe", "💾",
		"$(id)", "../../etc", "{}", "[]", `"4Gi"`, "4Gi,4Gi",
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"0": 0, "0Gi": 0, "1": 1, "007": 7, "1000": 1000, "1k": 1000, "500M": 500e6, "1G": 1e9,
		"2T": 2e12, "3P": 3e15, "9E": 9e18,
		"1Ki": 1 << 10, "4Mi": 4 << 20, "4Gi": 4 << 30, "4.0Gi": 4 << 30, "1.5Gi": 3 << 29,
		"0.5Ki": 512, "0.001k": 1,
		"1Ti": 1 << 40, "1Pi": 1 << 50, "7Ei": 7 << 60, "7.5Ei": 15 << 59,
		"9223372036854775807": math.MaxInt64, "9007199254740991.5Ki": math.MaxInt64 - 511,
	} {
		got, err := ParseBytes(in)
		if err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestParseBytesRefuses(t *testing.T) {
	for _, in := range hostileQuantities() {
		got, err := ParseBytes(in)
		checkRefused(t, in, got, err)
	}
}

// checkRefused checks that a value parser returned the zero value and a typed error with the value.
func checkRefused[T comparable](t *testing.T, in string, got T, err error) {
	t.Helper()
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		t.Errorf("%q: got %v, %v, want an InvalidError", in, got, err)
		return
	}
	var zero T
	if got != zero {
		t.Errorf("%q: got %v with an error, want %v", in, got, zero)
	}
	if invalid.Value != in || invalid.Allowed == "" || invalid.Key != "" {
		t.Errorf("%q: got %+v, want the value, no key, and the allowed range", in, invalid)
	}
}

func TestParseBytesSaysWhatIsTooLarge(t *testing.T) {
	for _, in := range []string{"8Ei", "9223372036854775808", "9E9"} {
		_, err := ParseBytes(in)
		tooLarge := err != nil && strings.Contains(err.Error(), "too large")
		if want := in != "9E9"; tooLarge != want {
			t.Errorf("ParseBytes(%q): %v: too large is %v, want %v", in, err, tooLarge, want)
		}
	}
}

func TestBytesString(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0", 1: "1", 1000: "1k", 1025: "1025", 1024: "1Ki", 4 << 30: "4Gi", 3 << 29: "1536Mi",
		math.MaxInt64: "9223372036854775807",
	} {
		if got := b.String(); got != want {
			t.Errorf("Bytes(%d).String() = %q, want %q", int64(b), got, want)
		}
	}
}

func TestBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Min(0).Draw(t, "bytes"))
		for _, s := range []string{b.String(), strconv.FormatInt(int64(b), 10)} {
			if got, err := ParseBytes(s); err != nil || got != b {
				t.Fatalf("ParseBytes(%q) = %d, %v, want %d", s, got, err, b)
			}
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range append(hostileQuantities(), "4Gi", "1.5Gi", "0", "9E",
		"9223372036854775807") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBytes(s)
		if err != nil {
			checkRefused(t, s, b, err)
			return
		}
		q, err := resource.ParseQuantity(s)
		if err != nil || q.Sign() < 0 || q.CmpInt64(int64(b)) != 0 {
			t.Errorf("%q: got %d, and Kubernetes says %v, %v", s, b, q.String(), err)
		}
		if again, err := ParseBytes(b.String()); err != nil || again != b {
			t.Errorf("%q: got %d, which prints as %q, which reads as %d, %v", s, b, b, again, err)
		}
	})
}
