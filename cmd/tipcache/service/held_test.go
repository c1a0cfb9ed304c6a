package service

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// held has the values of all fields that can be reached from the parts of a service, by field: node.Options.Timeout, or
// limits.Limits.Address.Burst, because Limits has two fields of the same type. Fields of one name count together. The
// configuration, from which the parts get their settings, is left out.
type held map[string][]string

const module = "github.com/tipcache/tipcache/"

// others are types of other modules that hold settings.
var others = []string{
	"log/slog.LevelVar", "net/http.Server", "net/url.URL", "github.com/redis/go-redis/v9.Options", "google.golang.org/grpc/keepalive.",
	"go.opentelemetry.io/otel/sdk/trace.",
}

// walked are packages of other modules through which settings are reached.
var walked = []string{
	"sync/atomic", "log/slog", "net/http", "net/url", "net/netip", "github.com/redis/go-redis/v9", "google.golang.org/grpc",
	"go.opentelemetry.io/otel/sdk/trace",
}

// holdings returns what the parts of a service hold.
func holdings(s *Service) held {
	w := walk{held: held{}, seen: map[visit]bool{}}
	w.value("", reflect.ValueOf(s))
	for _, values := range w.held {
		slices.Sort(values)
	}
	return w.held
}

// changed returns the fields whose values differ.
func (h held) changed(other held) (fields []string) {
	for field := range h {
		if !slices.Equal(h[field], other[field]) {
			fields = append(fields, field)
		}
	}
	for field := range other {
		if _, ok := h[field]; !ok {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

type visit struct {
	at uintptr
	of reflect.Type
}

type walk struct {
	held held
	seen map[visit]bool
}

// value records the value of a field and what it leads to. It reads unexported fields, too.
func (w *walk) value(field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		w.record(field, fmt.Sprint("nil ", v.IsNil()))
		if at := (visit{v.Pointer(), v.Type()}); !v.IsNil() && !w.seen[at] {
			w.seen[at] = true
			w.value(field, v.Elem())
		}
	case reflect.Interface:
		if v.IsNil() {
			w.record(field, "nil true")
			return
		}
		w.record(field, v.Elem().Type().String())
		w.value(field, v.Elem())
	case reflect.Struct:
		w.fields(v, field, v.Type().String())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.record(field, fmt.Sprint(v))
			return
		}
		w.record(field, fmt.Sprint("length ", v.Len()))
		for i := range v.Len() {
			w.value(field, v.Index(i))
		}
	case reflect.Map:
		w.record(field, fmt.Sprint("length ", v.Len()))
		for all := v.MapRange(); all.Next(); {
			w.value(field, all.Key())
			w.value(field, all.Value())
		}
	case reflect.Func:
		w.record(field, fmt.Sprint("nil ", v.IsNil()))
	case reflect.Chan, reflect.UnsafePointer, reflect.Uintptr:
	default:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			w.record(field, time.Duration(v.Int()).String())
		} else {
			w.record(field, fmt.Sprint(v))
		}
	}
}

func (w *walk) record(field, value string) {
	if field != "" {
		w.held[field] = append(w.held[field], value)
	}
}

// fields records the fields of a struct that is the value of a field. Their names begin with prefix.
func (w *walk) fields(v reflect.Value, field, prefix string) {
	t := v.Type()
	switch in := func(path string) bool { return strings.HasPrefix(t.PkgPath(), path) }; {
	case t.PkgPath() == module+"config":
		return
	case t.PkgPath() == "sync/atomic" && strings.HasPrefix(t.Name(), "Pointer["): // its first field has the type
		w.value(field, reflect.NewAt(t.Field(0).Type.Elem(), v.FieldByName("v").Addr().UnsafePointer()))
		return
	case t.PkgPath() == "sync/atomic":
		w.value(field, v.FieldByName("v"))
		return
	case t.PkgPath() != "" && !in(module) && !slices.ContainsFunc(walked, in):
		return
	}
	types := map[reflect.Type]int{}
	for i := range v.NumField() {
		types[t.Field(i).Type]++
	}
	for i := range v.NumField() {
		f := t.Field(i)
		name := prefix + "." + f.Name
		if isOurs := strings.HasPrefix(t.PkgPath(), module) || t.PkgPath() == ""; !isOurs && !slices.ContainsFunc(others, func(prefix string) bool { return strings.HasPrefix(t.PkgPath()+"."+t.Name(), prefix) }) {
			name = ""
		}
		if f.Type.Kind() == reflect.Struct && types[f.Type] > 1 && name != "" {
			w.fields(v.Field(i), name, name)
		} else {
			w.value(name, v.Field(i))
		}
	}
}
