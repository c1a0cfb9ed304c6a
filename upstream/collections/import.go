package collections

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// maxLine is the maximum length of a line in bytes.
const maxLine = 1 << 20

// maxProblems is the number of invalid lines after which ReadJSONL stops.
const maxProblems = 20

// byteOrderMark is ignored before the first line. Some editors add it.
const byteOrderMark = "\xef\xbb\xbf"

// ReadJSONL reads one collection per line: a JSON object with each of the documented fields exactly once, and no other field.
// It skips blank lines. A store's responses can be imported, but not their collectionMetadata, because stores have none: ReadJSONL
// adds the number of those that are not empty to ignored.
//
// After an invalid line it yields no more collections but reads the rest. The sequence then ends with an error that joins up
// to 20 errors such as "line 17: assetCount: must not be negative".
func ReadJSONL(r io.Reader, ignored *int) iter.Seq2[Collection, error] {
	return func(yield func(Collection, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), maxLine+len("\r\n"))
		number := 0
		var problems []error
		for len(problems) < maxProblems && lines.Scan() {
			number++
			line := lines.Bytes()
			if number == 1 {
				line = bytes.TrimPrefix(line, []byte(byteOrderMark))
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			c, err := parseLine(line)
			if len(c.Metadata) > len("{}") {
				*ignored++
			}
			c.Metadata = nil // stores have none
			if err != nil {
				problems = append(problems, fmt.Errorf("line %d: %w", number, err))
			} else if len(problems) == 0 && !yield(c, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("longer than %d bytes", maxLine)
			}
			problems = append(problems, fmt.Errorf("line %d: %w", number+1, err))
		}
		if len(problems) > 0 {
			yield(Collection{}, errors.Join(problems...))
		}
	}
}

func parseLine(line []byte) (c Collection, err error) {
	if !json.Valid(line) {
		return c, errors.New("not valid JSON")
	}
	object := gjson.ParseBytes(line)
	if !object.IsObject() {
		return c, errors.New("not a JSON object")
	}
	object.ForEach(func(name, _ gjson.Result) bool {
		if !slices.Contains(fields[:], name.String()) {
			err = fmt.Errorf("%.40q: unknown field", name.String())
		}
		return err == nil
	})
	if err == nil {
		c, err = Parse(object)
	}
	if err != nil {
		return Collection{}, err
	}
	return c, c.check()
}

// Parse reads a collection from a JSON object with each of the documented fields exactly once, except collectionMetadata, which may
// be missing. It ignores other fields. Metadata is nil if it is null or missing, and otherwise a part of the object. The error
// names the field, but never its value.
func Parse(object gjson.Result) (c Collection, err error) {
	targets := c.targets()
	var seen [len(fields)]bool
	object.ForEach(func(name, value gjson.Result) bool {
		i := slices.Index(fields[:], name.String())
		switch {
		case i < 0:
		case seen[i]:
			err = fmt.Errorf("%s: given twice", fields[i])
		default:
			seen[i] = true
			err = parseField(fields[i], value, targets[i])
		}
		return err == nil
	})
	if err != nil {
		return Collection{}, err
	}
	for i, name := range fields {
		if !seen[i] && targets[i] != any(&c.Metadata) {
			return Collection{}, fmt.Errorf("%s: missing", name)
		}
	}
	return c, c.checkFields()
}

func parseField(name string, value gjson.Result, target any) error {
	switch target := target.(type) {
	case *string:
		if value.Type != gjson.String {
			return fmt.Errorf("%s: must be a string", name)
		}
		*target = value.String()
	case *int64:
		n, err := strconv.ParseInt(value.Raw, 10, 64)
		if err != nil {
			return fmt.Errorf("%s: must be an integer", name)
		}
		*target = n
	case *time.Time:
		t, err := time.Parse(time.RFC3339, value.String())
		if err != nil || value.Type != gjson.String {
			return fmt.Errorf("%s: must be a time such as 2026-01-02T15:04:05Z", name)
		}
		*target = t.UTC().Truncate(time.Microsecond)
	case *json.RawMessage:
		if value.Type != gjson.Null {
			*target = json.RawMessage(value.Raw)
		}
	}
	return nil
}
