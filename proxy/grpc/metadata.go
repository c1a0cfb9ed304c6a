package grpc

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
)

// binarySuffix ends the names of metadata whose values are bytes. HTTP carries them in base64.
const binarySuffix = "-bin"

// fromNode returns the metadata of a node that the client of the call may get. Over gRPC-Web metadata become
// HTTP headers of the public origin, so only names that neither a browser nor a proxy acts on pass. Over gRPC
// all pass, except the headers that nginx acts on when it passes gRPC on.
func (k *call) fromNode(md metadata.MD) metadata.MD {
	_, web := k.stream.(*webStream)
	passed := metadata.MD{}
	for name, values := range md {
		if web && k.passesWeb(name) || !web && !strings.HasPrefix(name, "x-accel-") {
			passed[name] = values
		}
	}
	return passed
}

// passesWeb reports whether gRPC-Web passes on a node's metadata of this name.
func (d *Handler) passesWeb(name string) bool {
	return strings.HasPrefix(name, "x-cosmos-") || strings.HasSuffix(name, binarySuffix) || slices.Contains(d.o.WebMetadata, name)
}

// encoded returns a metadata value as HTTP carries it.
func encoded(name, value string) string {
	if strings.HasSuffix(name, binarySuffix) {
		return base64.RawStdEncoding.EncodeToString([]byte(value)) // unpadded, as gRPC servers send it
	}
	return value
}

var (
	metadataName = regexp.MustCompile(`^[a-z0-9_.-]+$`)
	// framing are the names that HTTP, CORS or gRPC-Web give a meaning in each response.
	framing = regexp.MustCompile(`^(access-control-.*|content-.*|grpc-(encoding|message|status)|cache-control|connection|date|keep-alive|te|trailer|transfer-encoding|upgrade|vary)$`)
)

// CheckWebMetadata reports why a name cannot be in Options.WebMetadata, nil if it can.
func CheckWebMetadata(name string) error {
	switch {
	case !metadataName.MatchString(name):
		return fmt.Errorf("%q is not a metadata name: expected lower-case letters, digits, - _ and . only", name)
	case framing.MatchString(name):
		return fmt.Errorf("%s has a meaning in each response of gRPC-Web, so a node cannot set it", name)
	}
	return nil
}
