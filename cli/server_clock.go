package cli

import (
	"net/http"
	"sync/atomic"
	"time"
)

// serverClock is the clock of the API server, by the Date header of its last response. Without one
// it is the local clock. It is for the age of heartbeats: the clock of a laptop can be wrong.
type serverClock struct {
	local  func() time.Time
	offset atomic.Int64 // from the local clock; a time.Duration
}

func (c *serverClock) now() time.Time {
	return c.local().Add(time.Duration(c.offset.Load()))
}

// wrap returns a transport that reads the time of each response.
func (c *serverClock) wrap(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(r)
		if err != nil {
			return response, err
		}
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			c.offset.Store(int64(date.Sub(c.local())))
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
