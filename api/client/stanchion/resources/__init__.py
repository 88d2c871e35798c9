"""The operations of each kind of resource. The API description at ``/docs/reference`` explains each in
detail."""
