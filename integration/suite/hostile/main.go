// Command hostile attacks the socket of a pod from inside the pod:
//
//	hostile send SOCKET            sends each text of the JSON list on its input unchanged,
//	                               and prints the answers as a JSON list of [Answer]
//	hostile reach SOCKET...        prints the sockets that accept a connection, one a line
//	hostile flood SOCKET FILE      opens many connections, creates FILE, and sends requests
//	                               until it is killed
//
// Tests run it in containers on a node.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

const (
	// deadline bounds one answer on an emulated node.
	deadline = time.Minute

	// hoarded exceeds the number of connections in the kernel's queue of a socket.
	hoarded = 600
)

// Answer is the answer to one request.
type Answer struct {
	Status int    `json:"status"` // 0: no HTTP
	Code   string `json:"code"`   // a code of podapi, or the reason why the answer is invalid
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "send":
		return send(args[1], os.Stdin, os.Stdout)
	case len(args) > 1 && args[0] == "reach":
		reach(args[1:], os.Stdout)
		return nil
	case len(args) == 3 && args[0] == "flood":
		return flood(args[1], args[2])
	}
	return fmt.Errorf("arguments %q: want send SOCKET, reach SOCKET... or flood SOCKET FILE", args)
}

func send(socket string, in io.Reader, out io.Writer) error {
	var requests []string
	if err := json.NewDecoder(in).Decode(&requests); err != nil {
		return fmt.Errorf("reading the requests: %w", err)
	}
	var answers []Answer
	for _, raw := range requests {
		answer, err := sendOne(socket, raw)
		for err == nil && answer.Code == podapi.CodeBusy {
			<-time.After(time.Second) // the answer demands this pause
			answer, err = sendOne(socket, raw)
		}
		if err != nil {
			return err
		}
		answers = append(answers, answer)
	}
	return json.NewEncoder(out).Encode(answers)
}

func sendOne(socket, raw string) (Answer, error) {
	conn, err := net.DialTimeout("unix", socket, deadline)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		return Answer{}, err
	}
	_, _ = io.WriteString(conn, raw) // the agent may close the connection early
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return Answer{Code: err.Error()}, nil
	}
	defer response.Body.Close()
	var body podapi.Error
	// some answers come from Go's HTTP server
	_ = json.NewDecoder(io.LimitReader(response.Body, podapi.MaxAnswer)).Decode(&body)
	return Answer{Status: response.StatusCode, Code: body.Code}, nil
}

func reach(sockets []string, out io.Writer) {
	for _, socket := range sockets {
		conn, err := net.DialTimeout("unix", socket, deadline)
		if err != nil {
			continue
		}
		conn.Close()
		fmt.Fprintln(out, socket)
	}
}

// flood returns only if it cannot start.
func flood(socket, file string) error {
	slow := hoard(socket)
	if len(slow) == 0 {
		return fmt.Errorf("no program listens on %s", socket)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	const body = `{"atLeast":8589934592}`
	request := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
		podapi.PathLock, len(body), body)
	for n := 0; ; n++ {
		_, _ = io.WriteString(slow[n%len(slow)], "x")
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			<-time.After(10 * time.Millisecond) // otherwise the loop would use up the node's CPUs
			continue
		}
		_, _ = io.WriteString(conn, strings.Repeat(request, 10))
		conn.Close()
	}
}

// hoard opens as many connections as the kernel allows, and starts a request on each.
func hoard(socket string) (slow []net.Conn) {
	for range hoarded {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			break // the queue is full
		}
		_, _ = io.WriteString(conn, "GET "+podapi.PathObserved+" HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		slow = append(slow, conn)
	}
	return slow
}
