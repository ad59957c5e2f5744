// Package server is the node's end of the command channel.
package server

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
	gossh "golang.org/x/crypto/ssh"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// New returns an SSH server. It runs commands as root for clients with the authorized key.
func New(host ssh.Signer, authorized ssh.PublicKey) *ssh.Server {
	back := &ssh.ForwardedTCPHandler{}
	return &ssh.Server{
		HostSigners: []ssh.Signer{host},
		PublicKeyHandler: func(_ ssh.Context, key ssh.PublicKey) bool {
			return ssh.KeysEqual(key, authorized)
		},
		Handler:     handle,
		PtyCallback: func(ssh.Context, ssh.Pty) bool { return true },

		ReversePortForwardingCallback: func(ssh.Context, string, uint32) bool { return true },
		ChannelHandlers: map[string]ssh.ChannelHandler{
			"session":                        ssh.DefaultSessionHandler,
			"direct-tcpip":                   forwardTCP,
			"direct-streamlocal@openssh.com": forwardUnix,
		},
		RequestHandlers: map[string]ssh.RequestHandler{
			"keepalive@openssh.com": func(ssh.Context, *ssh.Server, *gossh.Request) (bool, []byte) {
				return true, nil
			},
			"tcpip-forward":        back.HandleSSHRequest,
			"cancel-tcpip-forward": back.HandleSSHRequest,
		},
		SubsystemHandlers: map[string]ssh.SubsystemHandler{"sftp": serveFiles},
	}
}

func handle(s ssh.Session) {
	cmd := command(s)
	var err error
	if pty, resized, ok := s.Pty(); ok {
		err = runTerminal(s, cmd, pty, resized)
	} else {
		err = runStreams(s, cmd)
	}
	if err != nil {
		fmt.Fprintf(s.Stderr(), "node: %v\n", err)
	}
	report(s, cmd, err)
}

// command returns the shell command of a session, in a process session of its own. A signal then
// reaches all of its processes.
func command(s ssh.Session) *exec.Cmd {
	args := []string{"-l"}
	if raw := s.RawCommand(); raw != "" {
		args = []string{"-c", raw}
	}
	cmd := exec.Command("/bin/bash", args...)
	cmd.Dir = "/root"
	cmd.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "USER=root", "LANG=C.UTF-8",
	}, s.Environ()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// report sends the exit status or the signal of the command. ssh.Session cannot report signals.
func report(s ssh.Session, cmd *exec.Cmd, err error) {
	if cmd.ProcessState == nil {
		code := 126
		if err == nil {
			code = 0
		}
		_ = s.Exit(code)
		return
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		_ = s.Exit(status.ExitStatus())
		return
	}
	payload := gossh.Marshal(struct {
		Signal  string
		Core    bool
		Message string
		Lang    string
	}{Signal: channel.SignalName(status.Signal()), Core: status.CoreDump()})
	_, _ = s.SendRequest("exit-signal", false, payload)
	_ = s.Close()
}

func serveFiles(s ssh.Session) {
	server, err := sftp.NewServer(s)
	if err != nil {
		return
	}
	_ = server.Serve()
	_ = server.Close()
}

// Ready is the console line with the host key of a reachable node.
func Ready(host gossh.PublicKey) string {
	return channel.ReadyPrefix + strings.TrimSpace(string(gossh.MarshalAuthorizedKey(host)))
}
