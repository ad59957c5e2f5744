package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

var names = []string{"hooks.system.svc", "hooks.system.svc.cluster.local"}

// start is before the validity of any certificate.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func renew(t *testing.T, data map[string][]byte, now time.Time) map[string][]byte {
	t.Helper()
	out, err := Renew(data, names, now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// trusts reports whether a client with the bundle trusts the server certificate.
func trusts(t *testing.T, bundle, served map[string][]byte, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle[BundleKey])
	pair, err := tls.X509KeyPair(served[ServedKey], served[privateKey])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name,
			CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

func TestRenewFromNothing(t *testing.T) {
	for name, data := range map[string]map[string][]byte{
		"no data": nil,
		"no PEM": {BundleKey: []byte("x"), caKeyKey: []byte("x"), ServedKey: []byte("x"),
			privateKey: []byte("x")},
		"a server": {ServedKey: renew(t, nil, start)[ServedKey],
			privateKey: renew(t, nil, start)[privateKey]},
	} {
		t.Run(name, func(t *testing.T) {
			got := renew(t, data, start)
			if err := trusts(t, got, got, start); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenewLeavesWhatIsGood(t *testing.T) {
	first := renew(t, nil, start)
	first["other"] = []byte("kept")
	again := renew(t, first, start.Add(30*24*time.Hour))
	for key := range first {
		if !bytes.Equal(first[key], again[key]) {
			t.Errorf("%s has changed", key)
		}
	}
}

func TestRenewForOtherNames(t *testing.T) {
	first, err := Renew(nil, []string{"old.system.svc"}, start)
	if err != nil {
		t.Fatal(err)
	}
	got := renew(t, first, start)
	if err := trusts(t, first, got, start); err != nil {
		t.Error(err)
	}
	if _, err := Renew(nil, nil, start); err == nil {
		t.Error("a certificate without a name")
	}
}

func TestAnAuthorityWithoutItsKeyIsReplacedAndTrusted(t *testing.T) {
	first := renew(t, nil, start)
	lost := map[string][]byte{BundleKey: first[BundleKey], ServedKey: first[ServedKey],
		privateKey: first[privateKey]}
	got := renew(t, lost, start)
	if err := trusts(t, got, first, start); err != nil {
		t.Errorf("served certificate: %v", err)
	}
	later := start.Add(trustDelay + time.Minute)
	if got = renew(t, got, later); trusts(t, first, got, later) == nil {
		t.Error("the new authority has signed no certificate")
	}
}

// TestRotation simulates three years, day by day and minute by minute around changes. Clients with
// the current or the previous bundle always trust the current and the previous server certificate.
func TestRotation(t *testing.T) {
	before := renew(t, nil, start)
	changes := 0
	step := func(now time.Time) (changed bool) {
		after := renew(t, before, now)
		for _, pair := range [][2]map[string][]byte{{after, after}, {before, after},
			{after, before}} {
			if err := trusts(t, pair[0], pair[1], now); err != nil {
				t.Fatalf("%s: %v", now, err)
			}
		}
		changed = !bytes.Equal(before[BundleKey], after[BundleKey]) ||
			!bytes.Equal(before[ServedKey], after[ServedKey])
		before = after
		return changed
	}
	for day := start; day.Before(start.AddDate(3, 0, 0)); day = day.AddDate(0, 0, 1) {
		if !step(day) {
			continue
		}
		changes++
		for minute := range 30 {
			step(day.Add(time.Duration(minute) * time.Minute))
		}
	}
	if changes < 18 {
		t.Errorf("%d changes in three years: want one each 60 days", changes)
	}
}
