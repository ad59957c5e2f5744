package api

import "sync"

// webhookFields are the keys of admission webhooks. No Request contains them.
var webhookFields = sync.OnceValue(func() []field {
	return []field{
		{InjectSidecarKey, check(ParseInjection)},
		{InjectPreStopKey, check(parseBool)},
		{AddedKey, check(ParseBytes)},
		{RenderedKey, check(ParseRendered)},
	}
})

// check returns a setter that parses a value and drops the result.
func check[T any](parse func(string) (T, error)) func(*Request, string) error {
	return func(_ *Request, s string) error {
		_, err := parse(s)
		return err
	}
}

const followLimits = "follow-limits"

// Injection says whether the webhook adds mooring-shim to a launcher pod.
type Injection struct {
	Sidecar      bool
	FollowLimits bool // the VM follows the limits of its container
}

// String returns the annotation value. [ParseInjection] reads it back.
func (i Injection) String() string {
	switch {
	case i.FollowLimits:
		return followLimits
	case i.Sidecar:
		return "true"
	}
	return "false"
}

// ParseInjection reads "true", "false" or "follow-limits", which includes "true". The error is an
// [*InvalidError] without key.
func ParseInjection(s string) (Injection, error) {
	if s == followLimits {
		return Injection{Sidecar: true, FollowLimits: true}, nil
	}
	sidecar, err := parseBool(s)
	if err != nil {
		return Injection{}, invalid(s, `want "true", "false" or %q`, followLimits)
	}
	return Injection{Sidecar: sidecar}, nil
}

// InjectSidecar reads [InjectSidecarKey]. ok is false if the annotation is absent or invalid. The
// error is an [*InvalidError], or several joined.
func InjectSidecar(annotations map[string]string) (i Injection, ok bool, err error) {
	return ofPod(annotations, InjectSidecarKey, ParseInjection)
}

// InjectPreStop reads [InjectPreStopKey] like [InjectSidecar].
func InjectPreStop(annotations map[string]string) (inject, ok bool, err error) {
	return ofPod(annotations, InjectPreStopKey, parseBool)
}

// Added reads [AddedKey] like [InjectSidecar].
func Added(annotations map[string]string) (b Bytes, ok bool, err error) {
	return ofPod(annotations, AddedKey, ParseBytes)
}

// RenderedResources reads [RenderedKey] like [InjectSidecar].
func RenderedResources(annotations map[string]string) (r Rendered, ok bool, err error) {
	return ofPod(annotations, RenderedKey, ParseRendered)
}

// ofPod reads a key that concerns the pod as a whole.
func ofPod[T any](
	annotations map[string]string, base string, parse func(string) (T, error),
) (v T, ok bool, err error) {
	key, text, ok, err := podWide(annotations, base)
	if err != nil || !ok {
		return v, false, err
	}
	read, err := parse(text)
	if err != nil {
		return v, false, keyed(key, text, err)
	}
	return read, true, nil
}
