package doctor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxAnswer bounds the runtime's answer, in bytes.
const maxAnswer = 64 << 10

// queryRuntime asks the runtime at a unix socket for its name and version, by CRI's method Version.
// It speaks gRPC by hand, one message each way (doc/PROTOCOL-HTTP2.md of grpc): the library and the
// types of CRI would add 23 MB to a program of 34 MB.
func queryRuntime(ctx context.Context, socket string) (Runtime, error) {
	var runtime Runtime
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialUnix(ctx, socket)
			if err == nil {
				runtime.PID = peerPID(conn)
			}
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	message, err := callMethod(ctx, transport, "/runtime.v1.RuntimeService/Version")
	if err != nil {
		return Runtime{}, fmt.Errorf(
			"ask the container runtime at %s for its version: %w",
			socket,
			err,
		)
	}
	runtime.Name, runtime.Version, err = parseVersion(message)
	return runtime, err
}

// callMethod sends an empty message and returns the answer.
func callMethod(ctx context.Context, transport http.RoundTripper, method string) ([]byte, error) {
	empty := make([]byte, 5) // no compression, length 0
	request, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		"http://localhost"+method,
		bytes.NewReader(empty),
	)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{response.Header, response.Trailer} {
		if status := h.Get("Grpc-Status"); status != "" && status != "0" {
			return nil, fmt.Errorf(
				"it answers with gRPC status %s: %.200q",
				status,
				h.Get("Grpc-Message"),
			)
		}
	}
	if len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:5])) != len(body)-5 {
		return nil, fmt.Errorf("its answer (%s) is not a gRPC message", response.Status)
	}
	return body[5:], nil
}

// parseVersion reads runtime_name and runtime_version of CRI's VersionResponse.
func parseVersion(message []byte) (name, ver string, err error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || kind != protowire.BytesType {
			return "", "", errors.New(
				"the container runtime's version: not a VersionResponse of CRI",
			)
		}
		text, m := protowire.ConsumeString(message[n:])
		if m < 0 {
			return "", "", fmt.Errorf(
				"the container runtime's version: %w",
				protowire.ParseError(m),
			)
		}
		switch number {
		case 2:
			name = text
		case 3:
			ver = text
		}
		message = message[n+m:]
	}
	return name, ver, nil
}

func dialUnix(ctx context.Context, socket string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", socket)
}
