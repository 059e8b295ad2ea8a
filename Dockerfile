# The services of ReMe core and their worker; compose.yaml puts a database beside them.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --prefix=/install ".[server,mcp]"

FROM python:3.13-slim
COPY --from=build /install /usr/local
RUN useradd --create-home --uid 10001 reme
USER reme
WORKDIR /home/reme
ENV REME_HOME=/home/reme/data REME_HTTP__HOST=0.0.0.0 REME_MCP__HOST=0.0.0.0
EXPOSE 8002
ENTRYPOINT ["reme"]
CMD ["serve"]
