iptables -t nat -N ISTIO_POSTRT
iptables -t nat -A POSTROUTING -j ISTIO_POSTRT
iptables -t nat -A ISTIO_POSTRT -p tcp -d 10.4.9.0/24 -m owner --socket-exists -j SNAT --to-source 169.254.7.127
--
iptables -t nat -D POSTROUTING -j ISTIO_POSTRT
iptables -t nat -F ISTIO_POSTRT
iptables -t nat -X ISTIO_POSTRT
iptables -t nat -N ISTIO_POSTRT
iptables -t nat -A POSTROUTING -j ISTIO_POSTRT
iptables -t nat -A ISTIO_POSTRT -p tcp -d 10.4.9.0/24 -m owner --socket-exists -j SNAT --to-source 169.254.7.127
