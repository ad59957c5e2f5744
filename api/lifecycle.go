package api

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxDuration is the longest accepted grace period and watchdog time.
const MaxDuration = 7 * 24 * time.Hour

// maxDomainName is the longest name that libvirt can store, because it names files after domains.
const maxDomainName = 200

// parseDuration reads a positive number of whole seconds, the unit of grace periods in Kubernetes.
func parseDuration(s string) (time.Duration, error) {
	const want = "want whole seconds as a duration between 1s and 168h, such as 90s or 1h30m"
	if strings.Trim(s, "0123456789.hms") != "" {
		return 0, invalid(s, want)
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > MaxDuration || d%time.Second != 0 {
		return 0, invalid(s, want)
	}
	return d, nil
}

// parseDomain checks that s can be the UUID or the name of a libvirt domain.
func parseDomain(s string) (string, error) {
	odd := func(r rune) bool { return r == '/' || r == utf8.RuneError || !unicode.IsGraphic(r) }
	switch {
	case s == "" || len(s) > maxDomainName || strings.ContainsFunc(s, odd),
		strings.TrimSpace(s) != s, s == ".", s == "..":
		return "", invalid(s, "want a libvirt domain's UUID or name: "+
			"1 to %d bytes, printable, without slash and without space at either end",
			maxDomainName)
	}
	return s, nil
}

// checkContainerName checks that s can be the name of a container in Kubernetes.
func checkContainerName(s string) error {
	if len(validation.IsDNS1123Label(s)) > 0 {
		return invalid(s, "want a container's name: 1 to 63 of a-z, 0-9 and -, with a letter or "+
			"digit at either end")
	}
	return nil
}
