// Package host reads and changes processes, pidfd handles, cgroups and rlimits of this Linux host.
package host
