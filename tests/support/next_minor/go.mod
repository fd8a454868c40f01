module deltaproxy.test/next_minor

go 1.26.0
