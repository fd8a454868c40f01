iptables -P FORWARD DROP
iptables -t nat -N DOCKER
iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A DOCKER ! -i docker0 -p tcp --dport 8081 -j DNAT --to-destination 172.17.0.2:8080
iptables -N DOCKER
iptables -N DOCKER-USER
iptables -I FORWARD -o docker0 -j DOCKER
iptables -I FORWARD -i docker0 ! -o docker0 -j ACCEPT
iptables -I FORWARD -j DOCKER-USER
iptables -A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp --dport 8080 -j ACCEPT
iptables -t nat -I POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
--
iptables -D FORWARD -j DOCKER-USER
iptables -I FORWARD -j DOCKER-USER
iptables -F DOCKER
iptables -A DOCKER -d 172.17.0.3/32 ! -i docker0 -o docker0 -p tcp --dport 8080 -j ACCEPT
iptables -t nat -D PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -F DOCKER
iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
