// Command node-agent is the throw-away node's end of the command channel.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/channel/server"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "node-agent:", err)
		os.Exit(1)
	}
}

func run() error {
	authorized, err := authorizedKey("/proc/cmdline")
	if err != nil {
		return err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	host, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", ":22")
	if err != nil {
		return err
	}
	fmt.Println(server.Ready(host.PublicKey()))
	return server.New(host, authorized).Serve(l)
}

func authorizedKey(cmdline string) (ssh.PublicKey, error) {
	b, err := os.ReadFile(cmdline)
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(string(b)) {
		if encoded, ok := strings.CutPrefix(word, channel.KeyParameter); ok {
			key, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, fmt.Errorf("decoding %s: %w", channel.KeyParameter, err)
			}
			return ssh.ParsePublicKey(key)
		}
	}
	return nil, errors.New("no " + channel.KeyParameter + " among the kernel's parameters")
}
