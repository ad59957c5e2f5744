// Package certificates makes the certificates that webhooks are served with, keeps them in
// a Secret, and tells the API server whom to trust. It needs no other controller.
//
// There is an authority (CA) and a server certificate signed by it. Both are renewed after
// two thirds of their life. A new authority is trusted [settling] before anything is
// signed by it, and the old one until it has run out, so that no call fails meanwhile: the
// API server always gets the bundle of all that are valid.
//
//	Secret            ca.crt      bundle, the newest first: caBundle of the webhooks
//	                  ca.key      of the newest
//	                  tls.crt     what is served
//	                  tls.key
//
// [Keeper] writes, and may run once in a cluster; [Holder] reads, in every replica.
// cert-controller of Open Policy Agent was looked at: it ends the whole program when a
// webhook configuration is missing for a while, reads all Secrets of its namespace, and
// replaces an authority at one stroke.
package certificates
