package podapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mooring-vm/mooring/api"
)

// Decode reads exactly one JSON value and checks it. Unknown fields are an error. It reads body
// to its end, so the caller must bound it.
func Decode[T interface{ Check() error }](body io.Reader) (value T, err error) {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		if _, invalid := errors.AsType[*api.InvalidError](err); invalid {
			return value, err // names the field
		}
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
