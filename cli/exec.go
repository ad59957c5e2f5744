package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	agentContainer = "agent"

	// execTimeout bounds one command in a pod.
	execTimeout = time.Minute

	// maxExecOutput bounds the output of one command in a pod, in bytes.
	maxExecOutput = 1 << 20
)

var errOutputTooLong = fmt.Errorf("the output has more than %d bytes", maxExecOutput)

// execInAgent runs a command in the container of an agent's pod, and returns its output. The exit
// code of a command that ran is no error.
func (c *cluster) execInAgent(ctx context.Context, pod *corev1.Pod, command ...string) (
	[]byte, error,
) {
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	request := c.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").
		Name(pod.Name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: agentContainer, Command: command, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	var out, errOut boundedBuffer
	err = executor.StreamWithContext(ctx,
		remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
	_, exited := errors.AsType[clientexec.ExitError](err)
	switch {
	case out.full:
		return nil, errOutputTooLong
	case exited && out.Len() == 0:
		return nil, fmt.Errorf("%w: %.200s", err, oneLine(errOut.String()))
	case err != nil && !exited:
		return nil, clusterError(err, "create", "pods/exec",
			fmt.Sprintf("run a command in pod %s/%s", pod.Namespace, pod.Name))
	}
	return out.Bytes(), nil
}

// boundedBuffer keeps at most maxExecOutput bytes.
type boundedBuffer struct {
	bytes.Buffer
	full bool
}

var _ io.Writer = (*boundedBuffer)(nil)

// Write implements [io.Writer]. It drops bytes above the bound.
func (b *boundedBuffer) Write(text []byte) (int, error) {
	if b.Len()+len(text) > maxExecOutput {
		b.full = true
		return len(text), nil
	}
	return b.Buffer.Write(text)
}
