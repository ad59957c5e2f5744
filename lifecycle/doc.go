// Package lifecycle knows what launcher containers and their VM processes are to
// each other: a registry of launchers, a guard that compares what they were given
// with what the kernel shows, and the directories that pods share with the agent.
//
// It knows nothing of NRI. Whatever it does to the machine goes through small
// interfaces, each with a fake and one conformance suite for both.
package lifecycle
