package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemovePods stops and removes all pods with these labels.
func (c *Client) RemovePods(ctx context.Context, labels map[string]string) error {
	r, err := c.ListPodSandbox(ctx,
		&runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for _, found := range r.Items {
		s := Sandbox{Pod: Pod{Name: found.Metadata.GetName()}, ID: found.Id, client: c}
		if err := s.Remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
