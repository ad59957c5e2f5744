// Package kube is what the agent knows of Kubernetes, and tells it: the pods of
// its node with their service accounts ([PodCache]), and Events on those pods
// ([Recorder]). The agent works without either; nothing here is on the path of a
// container's creation except a look-up in memory.
package kube
