// Package certificates creates the certificates of the webhook server, keeps them in a Secret, and
// writes the trusted authorities into the webhook configurations. It needs no other controller.
//
// An authority (CA) signs the server certificate. Both are renewed after two thirds of their life.
// A new authority is trusted for [trustDelay] before it signs, and an old one until it expires. So
// no call fails during a renewal: the API server has the bundle of all valid authorities.
//
//	Secret            ca.crt      bundle, newest first: caBundle of the webhooks
//	                  ca.key      key of the newest authority
//	                  tls.crt     server certificate
//	                  tls.key
//
// [Keeper] writes; one runs in a cluster. [Holder] reads, in every replica. Open Policy Agent's
// cert-controller does not fit: it ends the program while a webhook configuration is missing, reads
// all Secrets of its namespace, and replaces an authority at once.
package certificates
