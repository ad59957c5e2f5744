package sysdump

import "regexp"

// secret matches JSON Web Tokens, such as those of service accounts, bearer tokens, bootstrap
// tokens and private keys.
var secret = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?` +
	`|(?i:bearer)[ :=]+[A-Za-z0-9._~+/-]{8,}=*` +
	`|\b[a-z0-9]{6}\.[a-z0-9]{16}\b` +
	`|(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`)

// redact replaces secrets in a text.
func redact(text []byte) []byte { return secret.ReplaceAll(text, []byte("[removed]")) }
