package main

import (
	"encoding/json"
	"testing"
)

func TestParse(t *testing.T) {
	o := parse("console=ttyS0 guest.ignore-power-button quiet")
	if len(o) != 1 || !o["ignore-power-button"] {
		t.Errorf("%v", o)
	}
}

func TestAnswer(t *testing.T) {
	for line, want := range map[string]string{
		"\xff{\"execute\":\"guest-sync\",\"arguments\":{\"id\":42}}\n": `{"return":42}`,

		`{"execute":"guest-none"}`: `{"error":{"class":"CommandNotFound","desc":"guest-none"}}`,
	} {
		q, err := parseRequest([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(handleRequest(q)); string(got) != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", line, got, err, want)
		}
	}
	if _, err := parseRequest([]byte("\xff\n")); err == nil {
		t.Error("a line without JSON was parsed")
	}
}
