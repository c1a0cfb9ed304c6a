package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// parse reads the texts of a setting, one but for a list, into a field of Config.
func parse(field reflect.Value, texts []string) error {
	switch field.Kind() {
	case reflect.Slice:
		field.Set(reflect.ValueOf(texts))
		return nil
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return parse(field.Elem(), texts)
	case reflect.Map:
		return errors.New("only a file can hold this section")
	default:
		return parseOne(field, texts[0])
	}
}

func parseOne(field reflect.Value, text string) error {
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if field.Type() == reflect.TypeFor[time.Duration]() {
		d, err := parseDuration(text)
		field.SetInt(int64(d))
		return err
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
		return nil
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		field.SetBool(b)
		return wrong(err, text, "neither true nor false")
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		field.SetFloat(f)
		return wrong(err, text, "not a number")
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 0, 64)
		field.SetUint(n)
		return wrong(err, text, "not a whole number from 0 on")
	default:
		n, err := strconv.ParseInt(text, 0, field.Type().Bits())
		field.SetInt(n)
		return wrong(err, text, "not a whole number")
	}
}

func wrong(err error, text, why string) error {
	if err != nil {
		return fmt.Errorf("%q is %s", text, why)
	}
	return nil
}

// parseDuration wants a unit: a bare 2 could be meant in seconds or in
// milliseconds.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, bare := strconv.ParseFloat(text, 64); bare == nil {
		return 0, fmt.Errorf("%q has no unit: write a time such as 100ms, 5s or 1h", text)
	}
	return 0, fmt.Errorf("%q is not a time such as 100ms, 5s or 1h", text)
}
