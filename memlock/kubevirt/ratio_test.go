package kubevirt

import (
	"math"
	"strings"
	"testing"
)

func TestParseRatio(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "1.0": 1, "1.5": 1.5, "4.5": 4.5, "+2": 2, "1e2": 100, "0x1.8p1": 3, "1_0": 10,
		"1.0000000000000002": math.Nextafter(1, 2),
	} {
		got, err := ParseRatio(text)
		if err != nil || got.factor != want || got.String() != text {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

// KubeVirt's webhook refuses the same texts except NaN and infinity, which break its own sum.
func TestParseRatioErrors(t *testing.T) {
	for _, text := range []string{
		"", " 1.5", "1.5 ", "1,5", "150%", "x", "NaN", "nan", "Inf", "+Inf", "-Inf", "infinity",
		"1e999", "-1e999",
		"0", "-0", "0.99999999", "-1.5", "1.5x", "0x", "--1",
	} {
		got, err := ParseRatio(text)
		if err == nil || got != (Ratio{}) ||
			!strings.Contains(err.Error(), "want a number of at least 1") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// The sum rounds up to thousands, and the share down.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		ratio     string
		sum, want int64
	}{
		{"1", 12345, 0},
		{"1.5", 1000, 0},
		{"1.5", 1001, 1000},
		{"1.5", 2000, 1000},
		{"1.5", 2001, 1000},
		{"1.5", 3001, 2000},
		{"2", 1, 1000},
		{"2", 283115520, 283116000},
		{"4.5", 294998017, 1032496000},
	} {
		r, err := ParseRatio(c.ratio)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.share(c.sum)
		if err != nil || got.Bytes != c.want || got.Name != "ratio "+c.ratio {
			t.Errorf("%s of %d: %v, %v, want %d", c.ratio, c.sum, got, err, c.want)
		}
	}
}

func TestShareOverflow(t *testing.T) {
	for _, text := range []string{"1e18", "1e300"} {
		r, err := ParseRatio(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.share(gi); err == nil || !strings.Contains(err.Error(), "int64") ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func FuzzParseRatio(f *testing.F) {
	for _, seed := range []string{"1.5", "", "NaN", "-Inf", "1e999", "0x1p3", "0.1",
		"1e15", "1_0"} {
		f.Add(seed, 270*mi)
	}
	f.Fuzz(func(t *testing.T, text string, sum int64) {
		r, err := ParseRatio(text)
		if err != nil {
			if r != (Ratio{}) {
				t.Errorf("%q: %v with %v", text, r, err)
			}
			return
		}
		if sum < 0 {
			return
		}
		if share, err := r.share(sum); err == nil && (share.Bytes < 0 || share.Bytes%1000 != 0) {
			t.Errorf("%q of %d: %d", text, sum, share.Bytes)
		}
	})
}
