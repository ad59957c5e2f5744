// Package nodeconfig enables the validator for required NRI plugins in a node's containerd, for
// launchers that require the agent. containerd checks each change (`containerd config dump`).
// [Node.Configure] and [Node.Undo] can run repeatedly.
//
// containerd reads drop-ins from imported directories. k3s and RKE2 generate containerd's
// configuration from a template. Their older releases import no directory, and Mooring's table goes
// into the template there.
//
// [Node.ConfigureGate] and [Node.UndoGate] do the same for the start gate of the node's libvirt.
package nodeconfig
