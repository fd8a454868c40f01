// Serves exec and port-forward of Pods as the kubelet does, with its streaming server, for the tests
// of commands that reach nodes through an API server.
//
//	kubelet-streams ADDRESS FILE
//
// Each line of FILE is a Pod: NAMESPACE/NAME, and the network namespace that its containers run in,
// which have the programs of this machine. The file is read for each request.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// A containers is the runtime: its sandboxes and containers have the names of their Pods.
type containers struct{ file string }

// inNamespaceOf calls f on a thread in the network namespace of a Pod.
func (c containers) inNamespaceOf(pod string, f func() error) error {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != pod {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		result := make(chan error)
		go func() {
			// Never unlocked: the thread ends with the goroutine.
			runtime.LockOSThread()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				result <- err
				return
			}
			result <- f()
		}()
		return <-result
	}
	return fmt.Errorf("no sandbox of %s", pod)
}

func (c containers) Exec(ctx context.Context, pod string, command []string, in io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	var process *exec.Cmd
	started := c.inNamespaceOf(pod, func() error {
		process = exec.CommandContext(ctx, command[0], command[1:]...)
		process.Stdin, process.Stdout, process.Stderr = in, out, err
		return process.Start()
	})
	if started != nil {
		return started
	}
	ended := process.Wait()
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		return &utilexec.ExitErrorWrapper{ExitError: exit}
	}
	return ended
}

func (c containers) Attach(context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errors.New("not implemented")
}

func (c containers) PortForward(_ context.Context, pod string, port int32, stream io.ReadWriteCloser) error {
	var connection net.Conn
	err := c.inNamespaceOf(pod, func() (err error) {
		connection, err = net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		return err
	})
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		io.Copy(connection, stream)
		connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

// serve answers a request of an API server: it asks for the URL of a stream, as the kubelet asks its
// runtime, and serves that URL.
func serve(streams streaming.Server, w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 3 {
		http.NotFound(w, r)
		return
	}
	pod := parts[1] + "/" + parts[2]
	var stream string
	var err error
	switch query := r.URL.Query(); parts[0] {
	case "exec":
		var response *runtimeapi.ExecResponse
		response, err = streams.GetExec(&runtimeapi.ExecRequest{
			ContainerId: pod,
			Cmd:         query["command"],
			Stdin:       query.Get("input") == "1",
			Stdout:      query.Get("output") == "1",
			Stderr:      query.Get("error") == "1",
		})
		stream = response.GetUrl()
	case "portForward":
		var options *portforward.V4Options
		if options, err = portforward.NewV4Options(r); err != nil {
			break
		}
		var response *runtimeapi.PortForwardResponse
		response, err = streams.GetPortForward(&runtimeapi.PortForwardRequest{
			PodSandboxId: pod,
			Port:         options.Ports,
		})
		stream = response.GetUrl()
	default:
		err = errors.New("neither exec nor portForward")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	to, err := url.Parse(stream)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.URL.Path = to.Path
	streams.ServeHTTP(w, r)
}

// certificate makes one that nothing has signed: an API server without
// --kubelet-certificate-authority verifies none.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, err
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: kubelet-streams ADDRESS FILE")
	}
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Path: "/"}
	streams, err := streaming.NewServer(config, containers{file: os.Args[2]})
	if err != nil {
		log.Fatal(err)
	}
	own, err := certificate()
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{
		Addr:      os.Args[1],
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serve(streams, w, r)
		}),
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
