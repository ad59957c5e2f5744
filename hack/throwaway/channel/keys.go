package channel

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
)

// NewKey makes an ed25519 key and writes it to path in OpenSSH's format, with mode 0600.
func NewKey(path string) (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for the node: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "throw-away node")
	if err != nil {
		return nil, fmt.Errorf("encoding the node's key: %w", err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, fmt.Errorf("keeping the node's key: %w", err)
	}
	return ssh.NewSignerFromKey(private)
}

// LoadKey reads a key that NewKey wrote.
func LoadKey(path string) (ssh.Signer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the node's key: %w", err)
	}
	return ssh.ParsePrivateKey(b)
}
