// Package kube is the agent's connection to Kubernetes: the pods of its node with their service
// accounts ([PodCache]), and Events on these pods ([Recorder]). The agent works without either. The
// creation of a container needs at most a look-up in memory.
package kube
