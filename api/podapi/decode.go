package podapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads one value and nothing else, and checks it. Fields that it does not have
// are an error. It reads to the end of body, which the caller bounds.
func Decode[T interface{ Check() error }](body io.Reader) (value T, err error) {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		return value, fmt.Errorf("want one JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("there is more after it")
		}
		return value, fmt.Errorf("want one JSON object: %w", err)
	}
	return value, value.Check()
}
